"""The completion scripts, one per shell, written from ``leftoff.cli.completion.completable``.

What only the store knows (runs, steps) is asked of ``leftoff completion runs|steps`` when Tab is pressed.
"""

from __future__ import annotations

from leftoff.cli.completion.completable import FILES, FOLDERS, FREE, RUNS, STEPS, WORDS, common, verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.completion.completable import Choice, Completable, Slot


# -- bash

BASH = """\
# Completion of leftoff for bash. In ~/.bashrc:  eval "$(leftoff completion bash)"

_leftoff_ask() { leftoff completion "$1" 2>/dev/null; }

_leftoff_offer() {  # KIND WORDS CURRENT
    local IFS=$'\\n'
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
"""


def bash() -> str:
    known = verbs()
    values = [_bash_value("", choice) for choice in common()]
    slots, options = [], []
    for verb in known:
        values += [_bash_value(verb.name, choice) for choice in verb.choices]
        for number, slot in enumerate(verb.slots):
            more = "*" if verb.repeats and number == len(verb.slots) - 1 else str(number)
            slots.append(f"    {verb.name}:{more}) echo {_bash_slot(slot)} ;;")
        options.append(f'    {verb.name}) echo "{" ".join(choice.name for choice in verb.choices)}" ;;')
    parts = {
        "VALUES": "\n".join(value for value in values if value),
        "SLOTS": "\n".join(slots),
        "OPTIONS": "\n".join(options),
        "COMMON": " ".join(choice.name for choice in common()),
        "VERBS": " ".join(verb.name for verb in known),
    }
    return _filled(BASH, parts)


def _bash_value(verb: str, choice: Choice) -> str:
    return "" if choice.value is None else f"    {verb}:{choice.name}) echo {_bash_slot(choice.value)} ;;"


def _bash_slot(slot: Slot) -> str:
    return f"{slot.kind} {' '.join(slot.words)}".rstrip()


def _filled(text: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


# -- zsh

ZSH = """\
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
    _arguments -C \\
@COMMON@
        '--version[the version of leftoff]' \\
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
"""
_ZSH = {RUNS: "_leftoff_runs", STEPS: "_leftoff_steps", FILES: "_files", FOLDERS: "_files -/", FREE: " "}


def zsh() -> str:
    known = verbs()
    listed = [f"        {_quoted(f'{verb.name}:{verb.about}')}" for verb in known]
    parts = {
        "VERBS": "\n".join(listed),
        "COMMON": "\n".join(f"        {_zsh_option(choice)} \\" for choice in common()),
        "CASES": "\n".join(_zsh_case(verb) for verb in known),
    }
    return _filled(ZSH, parts)


def _zsh_case(verb: Completable) -> str:
    words = [_zsh_option(choice) for choice in verb.choices]
    for number, slot in enumerate(verb.slots, start=1):
        more = "*" if verb.repeats and number == len(verb.slots) else str(number)
        words.append(_quoted(f"{more}::{slot.kind}:{_zsh_slot(slot)}"))
    return f"        {verb.name}) _arguments {' '.join(words)} ;;"


def _zsh_option(choice: Choice) -> str:
    about = choice.about.replace("[", "(").replace("]", ")").replace(":", r"\:")
    text = f"*{choice.name}[{about}]"
    return _quoted(text if choice.value is None else f"{text}:{choice.value.kind}:{_zsh_slot(choice.value)}")


def _zsh_slot(slot: Slot) -> str:
    return f"({' '.join(slot.words)})" if slot.kind == WORDS else _ZSH[slot.kind]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- fish

FISH = """\
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
"""


def fish() -> str:
    known = verbs()
    valued = {choice.name for verb in known for choice in verb.choices if choice.value is not None}
    lines = [_fish_option("__leftoff_first", choice) for choice in common()]
    lines.append("complete -c leftoff -n __leftoff_first -l version -d 'the version of leftoff'")
    for verb in known:
        lines.append(f"complete -c leftoff -n __leftoff_first -a {verb.name} -d {_fish(verb.about)}")
        lines += [_fish_option(f"__leftoff_at {verb.name}", choice) for choice in verb.choices]
        for number, slot in enumerate(verb.slots):
            more = "'*'" if verb.repeats and number == len(verb.slots) - 1 else str(number)
            if slot.kind != FREE:
                lines.append(f'complete -c leftoff -n "__leftoff_at {verb.name} {more}" {_fish_slot(slot)}')
    return _filled(FISH, {"VALUED": " ".join(sorted(valued)), "LINES": "\n".join(lines)})


def _fish_option(when: str, choice: Choice) -> str:
    name = f"-l {choice.name[2:]}" if choice.name.startswith("--") else f"-s {choice.name[1:]}"
    value = "" if choice.value is None else f" -r {_fish_slot(choice.value)}".rstrip()
    return f'complete -c leftoff -n "{when}" {name}{value} -d {_fish(choice.about)}'


def _fish_slot(slot: Slot) -> str:
    if slot.kind in (FILES, FOLDERS):
        return "-F"
    if slot.kind == WORDS:
        return f"-f -a {_fish(' '.join(slot.words))}"
    return f"-f -a '(leftoff completion {slot.kind} 2>/dev/null)'" if slot.kind != FREE else "-f"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
