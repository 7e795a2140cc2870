# Completion of leftoff for fish. In ~/.config/fish/config.fish:  leftoff completion fish | source

function __leftoff_words --description 'the words so far that are no options: the verb, then its own'
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            contains -- $word @VALUED@; and set skip 1
        else
            echo $word
        end
    end
end

function __leftoff_at --description 'whether the cursor is at a verb (VERB), or at word N behind it (VERB N)'
    set -l words (__leftoff_words)
    set -l count (count $words)
    test $count -gt 0; and test "$words[1]" = $argv[1]; or return 1
    test (count $argv) -lt 2; and return 0
    test $argv[2] = '*'; or test (math $count - 1) = $argv[2]
end

function __leftoff_first
    test (count (__leftoff_words)) = 0
end

complete -c leftoff -e
complete -c leftoff -f
@LINES@
