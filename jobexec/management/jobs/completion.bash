# Completion of "manage.py jobs" for bash, and by bashcompinit for zsh. Made by "manage.py jobs completion".

_jobexec_jobs_table() {
    cat <<'JOBEXEC'
@TABLE@
JOBEXEC
}

_jobexec_jobs_words() { # the words of a key of the table; fails for a key that it does not have
    local key words
    while IFS=$'\t' read -r key words; do
        if [ "$key" = "$1" ]; then
            printf '%s\n' "$words"
            return 0
        fi
    done < <(_jobexec_jobs_table)
    return 1
}

_jobexec_jobs() {
    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" at=0 i trail="" words="" more=""
    COMPREPLY=()
    local called=()
    for ((i = 0; i < COMP_CWORD; i++)); do # how the command was called
        called+=("${COMP_WORDS[i]}")
        if [ "$i" -gt 0 ] && [ "${COMP_WORDS[i]}" = jobs ]; then at=$i; break; fi
    done
    if [ "$at" -eq 0 ]; then
        return 1
    fi
    for ((i = at + 1; i < COMP_CWORD; i++)); do # actions, and actions of actions
        case "${COMP_WORDS[i]}" in
            -*) ;;
            *) if _jobexec_jobs_words "${trail:+$trail }${COMP_WORDS[i]}" > /dev/null; then
                   trail="${trail:+$trail }${COMP_WORDS[i]}"
               fi ;;
        esac
    done
    case "$before" in
        --*) words="$(_jobexec_jobs_words "$trail $before")" ;;
    esac
    if [ -z "$words" ]; then
        words="$(_jobexec_jobs_words "${trail:--}")"
        case "$current" in
            -*) ;;
            *) more="$(_jobexec_jobs_words "$trail *")" ;;
        esac
    fi
    case "$words $more" in
        *@handlers*) more="$more $("${called[@]}" completion handlers 2> /dev/null)" ;;
        *@nodes*) more="$more $("${called[@]}" completion nodes 2> /dev/null)" ;;
    esac
    words="$words $more"
    while IFS= read -r i; do
        case "$i" in
            @*) ;;
            *) COMPREPLY+=("$i") ;;
        esac
    done < <(compgen -W "$words" -- "$current")
}

_jobexec_jobs_of_python() {
    case "${COMP_WORDS[1]}" in
        *manage.py) _jobexec_jobs ;;
        *) return 1 ;;
    esac
}

complete -o default -F _jobexec_jobs manage.py ./manage.py django-admin
complete -o default -F _jobexec_jobs_of_python python python3
