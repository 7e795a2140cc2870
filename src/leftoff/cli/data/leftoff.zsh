#compdef leftoff
# Completion of leftoff for zsh. In ~/.zshrc, after compinit:  source <(leftoff completion zsh)

_leftoff() {
    local -a found
    found=(${(f)"$(leftoff completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    found=(${found%%$'\t'*})
    case $found[1] in
    :files) _files ;;
    :folders) _files -/ ;;
    *) compadd -a found ;;
    esac
}
compdef _leftoff leftoff
