#compdef %(prog_name)s
_mooring() {
    local reply
    local -a parts values shown
    local -i paths=0 folders=0
    for reply in ${(f)"$(%(complete_var)s=zsh_complete COMP_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \
        $words[1] 2>/dev/null)"}; do
        parts=("${(@ps:\t:)reply}")
        case $parts[1] in
            file) paths=1 ;;
            dir) folders=1 ;;
            plain) values+=("$parts[2]"); shown+=("$parts[2]${parts[3]:+  -- $parts[3]}") ;;
        esac
    done
    [[ $PREFIX == -*=* ]] && compset -P 1 '*='
    (( paths )) && _files
    (( folders )) && _files -/
    (( $#values )) && compadd -l -V mooring -d shown -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _mooring "$@"
else
    compdef _mooring %(prog_name)s
fi
