"""The completion scripts, one per shell, each a way to write the table of ``leftoff.cli.completion.completable``.

What only the store knows (runs, steps) is asked of ``leftoff completion runs|steps`` when Tab is pressed.
"""

from __future__ import annotations

from leftoff.cli.completion.completable import FILES, FOLDERS, FREE, RUNS, STEPS, WORDS, names, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.completion.completable import Entry, Slot


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
    rows = table()

    def written(options: bool) -> str:
        found = [row for row in rows if row.is_option == options and row.slot is not None]
        return "\n".join(f"    {row.verb}:{row.place}) echo {_bash_slot(row.slot)} ;;" for row in found)

    options = {
        verb: " ".join(row.place for row in of(rows, verb) if row.is_option) for verb in ("", *names())
    }
    parts = {
        "VALUES": written(True),
        "SLOTS": written(False),
        "COMMON": options.pop(""),
        "OPTIONS": "\n".join(f'    {verb}) echo "{known}" ;;' for verb, known in options.items()),
        "VERBS": " ".join(names()),
    }
    return _filled(BASH, parts)


def _bash_slot(slot: Slot | None) -> str:
    return f"{slot.kind} {' '.join(slot.words)}".rstrip() if slot is not None else ""


def of(rows: list[Entry], verb: str) -> list[Entry]:
    return [row for row in rows if row.verb == verb]


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
    rows = table()
    cases = {verb: " ".join(map(_zsh_word, of(rows, verb))) for verb in names()}
    parts = {
        "VERBS": "\n".join(f"        {_quoted(f'{verb}:{about}')}" for verb, about in names().items()),
        "COMMON": "\n".join(f"        {_zsh_word(row)} \\" for row in of(rows, "")),
        "CASES": "\n".join(f"        {verb}) _arguments {words} ;;" for verb, words in cases.items()),
    }
    return _filled(ZSH, parts)


def _zsh_word(row: Entry) -> str:
    what = f"{row.slot.kind}:{_zsh_slot(row.slot)}" if row.slot is not None else ""
    if not row.is_option:
        return _quoted(f"{row.place if row.place == '*' else int(row.place) + 1}::{what}")
    about = row.about.replace("[", "(").replace("]", ")").replace(":", r"\:")
    return _quoted(f"*{row.place}[{about}]{':' if what else ''}{what}")


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
    rows = table()
    lines = [*map(_fish_line, of(rows, ""))]
    lines.append("complete -c leftoff -n __leftoff_first -l version -d 'the version of leftoff'")
    for verb, about in names().items():
        lines.append(f"complete -c leftoff -n __leftoff_first -a {verb} -d {_fish(about)}")
        lines += filter(None, map(_fish_line, of(rows, verb)))
    valued = sorted({row.place for row in rows if row.is_option and row.slot is not None})
    return _filled(FISH, {"VALUED": " ".join(valued), "LINES": "\n".join(lines)})


def _fish_line(row: Entry) -> str:
    where = f"__leftoff_at {row.verb}" if row.verb else "__leftoff_first"
    what = _fish_slot(row.slot) if row.slot is not None else ""
    if not row.is_option:
        place = "'*'" if row.place == "*" else row.place
        return f'complete -c leftoff -n "{where} {place}" {what}' if what != "-f" else ""
    name = f"-l {row.place[2:]}" if row.place.startswith("--") else f"-s {row.place[1:]}"
    return f'complete -c leftoff -n "{where}" {name}{" -r " if what else ""}{what} -d {_fish(row.about)}'


def _fish_slot(slot: Slot) -> str:
    if slot.kind in (FILES, FOLDERS):
        return "-F"
    if slot.kind == WORDS:
        return f"-f -a {_fish(' '.join(slot.words))}"
    return f"-f -a '(leftoff completion {slot.kind} 2>/dev/null)'" if slot.kind != FREE else "-f"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
