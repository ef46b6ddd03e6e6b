function __mooring_complete
    set -l flag (string match --regex -- '^-[^=]*=' (commandline -ct))
    set -l rest (string replace --regex -- '^-[^=]*=' '' (commandline -ct))
    set -lx %(complete_var)s fish_complete
    set -lx COMP_LINE (commandline -cp | string collect)
    set -l program (commandline -opc)[1]
    for reply in ($program 2>/dev/null)
        set -l parts (string split \t -- $reply)
        switch $parts[1]
            case file
                printf '%%s\n' "$flag"(__fish_complete_path $rest)
            case dir
                printf '%%s\n' "$flag"(__fish_complete_directories $rest)
            case plain
                printf '%%s%%s\t%%s\n' "$flag" $parts[2] "$parts[3]"
        end
    end
end
complete --no-files --command %(prog_name)s --arguments '(__mooring_complete)'
