# Completion of leftoff for bash. In ~/.bashrc:  eval "$(leftoff completion bash)"

_leftoff_ask() { leftoff completion "$1" 2>/dev/null; }

_leftoff_offer() {  # KIND WORDS CURRENT
    local IFS=$'\n'
    case $1 in
    words) COMPREPLY=($(compgen -W "${2// /$IFS}" -- "$3")) ;;
    runs | steps) COMPREPLY=($(compgen -W "$(_leftoff_ask "$1")" -- "$3")) ;;
    files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$3")) ;;
    folders) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$3")) ;;
    esac
}

_leftoff_value() {  # VERB OPTION: which kind of value it takes; fails for a flag
    case $1:$2 in
@VALUES@
    *) return 1 ;;
    esac
}

_leftoff_slot() {  # VERB NUMBER: which kind of word stands there
    case $1:$2 in
@SLOTS@
    esac
}

_leftoff_options() {  # VERB
    case $1 in
@OPTIONS@
    *) echo "@COMMON@ --version" ;;
    esac
}

_leftoff() {
    local current=${COMP_WORDS[COMP_CWORD]} verb= number=0 at=1 word kind words
    COMPREPLY=()
    while ((at < COMP_CWORD)); do
        word=${COMP_WORDS[at]}
        if [[ $word == -* ]]; then
            if read -r kind words < <(_leftoff_value "$verb" "$word"); then
                ((++at))
                [[ ${COMP_WORDS[at]} == = ]] && ((++at))
                if ((at >= COMP_CWORD)); then
                    [[ $current == = ]] && current=
                    _leftoff_offer "$kind" "$words" "$current"
                    return
                fi
            fi
        elif [[ -z $verb ]]; then
            verb=$word
        else
            ((++number))
        fi
        ((++at))
    done
    if [[ $current == -* ]]; then
        _leftoff_offer words "$(_leftoff_options "$verb")" "$current"
    elif [[ -z $verb ]]; then
        _leftoff_offer words "@VERBS@" "$current"
    else
        read -r kind words < <(_leftoff_slot "$verb" "$number")
        _leftoff_offer "$kind" "$words" "$current"
    fi
}
complete -F _leftoff leftoff
