// What both pages ask of the browser: to keep a text, and which language it prefers.

// Null: it was never kept, or the browser stores nothing.
export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

// Null: it is no JSON.
export function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// False: the browser stores nothing.
export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
    return true;
  } catch {
    return false;
  }
}

// Of the tables of WORDS: the one that was chosen on this host, else the first of the
// browser's that is there. A cookie, because the shop and the laboratory have a port each.
export const firstLanguage = (words) => [/stockade-language=(\w+)/.exec(document.cookie)?.[1], ...navigator.languages.map((each) => each.slice(0, 2))].find((each) => words[each]) ?? 'en';

const SWITCH = ['en', 'zh'].map((each) => document.getElementById(each));

export function showLanguage(language) {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : language;
  for (const each of SWITCH) each.setAttribute('aria-pressed', each.id === language);
}

// Whoever presses the switch has both pages SPEAK that language from then on.
export const wireLanguages = (speak) => SWITCH.forEach((each) => each.addEventListener('click', () => {
  document.cookie = `stockade-language=${each.id}; path=/; max-age=31536000; samesite=lax`;
  speak(each.id);
}));

// Puts the words, which TEXT has by their names, into ROOT and what is in it: an element
// with data-word has a text, one with data-label a name.
export function fill(root, text) {
  for (const each of root.querySelectorAll('[data-word]')) each.textContent = text(each.dataset.word);
  for (const each of root.querySelectorAll('[data-label]')) each.setAttribute('aria-label', text(each.dataset.label));
}

// BLOB becomes a file of the reader's.
export function download(name, blob) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000); // the browser has begun to read it
}

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
