# Completion of leftoff for bash. In ~/.bashrc:  eval "$(leftoff completion bash)"

_leftoff() {
    local IFS=$'\n' current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=($(leftoff completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    case ${COMPREPLY[0]} in
    :files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")) ;;
    :folders) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$current")) ;;
    *) COMPREPLY=("${COMPREPLY[@]%%$'\t'*}") ;;
    esac
}
complete -F _leftoff leftoff
