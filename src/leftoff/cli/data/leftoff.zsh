#compdef leftoff
# Completion of leftoff for zsh. In ~/.zshrc, after compinit:  source <(leftoff completion zsh)

_leftoff_runs() { local -a found; found=(${(f)"$(leftoff completion runs 2>/dev/null)"}); compadd -a found }
_leftoff_steps() { local -a found; found=(${(f)"$(leftoff completion steps 2>/dev/null)"}); compadd -a found }

_leftoff() {
    local context state state_descr line
    typeset -A opt_args
    local -a verbs
    verbs=(
@VERBS@
    )
    _arguments -C \
@COMMON@
        '--version[the version of leftoff]' \
        '1: :->verb' '*:: :->rest'
    case $state in
    verb) _describe -t verbs verb verbs ;;
    rest)
        case $words[1] in
@CASES@
        esac
        ;;
    esac
}
compdef _leftoff leftoff
