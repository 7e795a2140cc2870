# Completion of leftoff for fish. In ~/.config/fish/config.fish:  leftoff completion fish | source

function __leftoff_offer
    set -l current (commandline -ct)
    set -l found (leftoff completion words -- (commandline -opc)[2..] "$current" 2>/dev/null)
    switch "$found[1]"
        case :files
            __fish_complete_path "$current"
        case :folders
            __fish_complete_directories "$current"
        case '*'
            printf '%s\n' $found
    end
end

complete -c leftoff -e
complete -c leftoff -f -a '(__leftoff_offer)'
