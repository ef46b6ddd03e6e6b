_mooring_completion() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
            plain) printf -v value '%%q' "$value" && COMPREPLY+=("$value") ;;
        esac
    done < <(%(complete_var)s=bash_complete COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
        "$1" 2>/dev/null)
}
complete -o nosort -F _mooring_completion %(prog_name)s
