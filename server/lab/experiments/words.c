/* See words.h. */
#include "server/lab/experiments/words.h"

#include <stdint.h>
#include <string.h>
#include <unilbrk.h>

#include "server/lab/picture/chinese.h"
#include "server/lab/picture/draw.h"

enum { TEXT_BYTES_MAX = 2000 }; /* what is longer is not broken into lines */

void words_wrap(FILE *out, int indent, const char *text)
{
    char breaks[TEXT_BYTES_MAX], forced[TEXT_BYTES_MAX];
    size_t n = strlen(text);
    bool begins = true;

    if (n > sizeof(breaks))
        n = sizeof(breaks);
    for (size_t i = 0; i < n; i++) /* not in "--lock-max-hold-ms" */
        forced[i] = i > 0 && text[i - 1] == '-' ? UC_BREAK_PROHIBITED
                                                : UC_BREAK_UNDEFINED;
    (void)u8_width_linebreaks((const uint8_t *)text, n,
                              draw_columns(out) - indent, 0, 0, forced, "UTF-8",
                              breaks);
    fprintf(out, "%*s", indent, "");
    for (size_t i = 0; i < n; i++) {
        begins = breaks[i] == UC_BREAK_POSSIBLE;
        if (begins)
            fprintf(out, "\n%*s", indent, "");
        /* The space at which a line ends would stand at the end of it. */
        if (text[i] != ' ' || i + 1 == n || breaks[i + 1] != UC_BREAK_POSSIBLE)
            fputc(text[i], out);
    }
    fputc('\n', out);
}

void words_wrap_english(FILE *out, int indent, unsigned look, const char *text)
{
    char words[TEXT_BYTES_MAX];

    (void)snprintf(words, sizeof(words), "%s", text);
    if (look & DRAW_CHINESE)
        chinese(words, sizeof(words));
    words_wrap(out, indent, words);
}
