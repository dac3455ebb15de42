# Completion for bash. It asks the program that is on the line for its commands,
# settings and locks (help, --help), so it is never older than that.
# shellcheck shell=bash

# What follows a command on the line: "serve", "audit", "lab locks".
_stockade_help() {
    local command=("${COMP_WORDS[0]}" "${COMP_WORDS[1]}")
    [ "${COMP_WORDS[1]}" != lab ] || [ "$COMP_CWORD" = 2 ] || command+=("${COMP_WORDS[2]}")
    "${command[@]}" --help 2>/dev/null
}

# The words that FLAG takes: the locks, or those of "guarded|naive".
_stockade_values() {
    local flag=$1 takes
    if [ "$flag" = --lock ]; then
        "${COMP_WORDS[0]}" serve --help 2>/dev/null | sed -n '/^Locks:/,$s/^  \([a-z][a-z-]*\) .*/\1/p'
        return
    fi
    takes=$(_stockade_help | sed -n "s/^ *$flag \([^ ]*|[^ ]*\).*/\1/p")
    tr '|' '\n' <<<"$takes" | grep -x '[a-z-]*'
}

_stockade() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words
    if [ "$COMP_CWORD" = 1 ]; then
        words=$("${COMP_WORDS[0]}" help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')
    elif [[ $current == -* ]]; then
        words=$(_stockade_help | grep -o -e '^ *--[a-z-]*' -e ', --[a-z-]*' | grep -o -e '--.*')
    elif [[ $before == --* ]]; then
        words=$(_stockade_values "$before")
    elif [[ ${COMP_WORDS[1]} =~ ^(explore|replay)$ ]]; then
        words=$(_stockade_values --lock)
    elif [ "${COMP_WORDS[1]}" = lab ] && [ "$COMP_CWORD" = 2 ]; then
        words=$(_stockade_help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
    elif [ "${COMP_WORDS[1]}" = lab ] && [[ ${COMP_WORDS[2]} =~ ^(show|run)$ ]]; then
        words=$("${COMP_WORDS[0]}" lab list 2>/dev/null | sed -n 's/^[0-9][0-9]w* *\([a-z][^ ]*\)  .*/\1/p')
    elif [ "${COMP_WORDS[1]}" = lab ] && [ "${COMP_WORDS[2]}" = path ]; then
        words=$("${COMP_WORDS[0]}" lab path 2>/dev/null | sed -n 's/^\[.\] [0-9]* *\([a-z-]*\) .*/\1/p')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

# Where there is nothing to say: files.
complete -o default -F _stockade stockade
