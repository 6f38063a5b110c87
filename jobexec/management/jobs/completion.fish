# Completion of "manage.py jobs" for fish. Made by "manage.py jobs completion fish".

set -g __jobexec_jobs_table '@TABLE@'

function __jobexec_jobs_words # the words of a key of the table; fails for a key that it does not have
    for line in (string split \n -- $__jobexec_jobs_table)
        set -l parts (string split -m 1 \t -- $line)
        if test "$parts[1]" = "$argv[1]"
            string split -n ' ' -- $parts[2]
            return 0
        end
    end
    return 1
end

function __jobexec_jobs_complete
    set -l done (commandline -opc)
    set -l current (commandline -ct)
    set -l at (contains -i -- jobs $done); or return
    set -l path -
    for word in $done[(math $at + 1)..-1]
        if not string match -q -- '-*' $word
            set -l longer (string replace -r "^- " "" -- "$path $word")
            if __jobexec_jobs_words $longer >/dev/null
                set path $longer
            end
        end
    end
    set -l words
    if string match -q -- '--*' $done[-1]
        set words (__jobexec_jobs_words "$path $done[-1]")
    end
    if test -z "$words"
        set words (__jobexec_jobs_words $path)
        if not string match -q -- '-*' $current
            set -a words (__jobexec_jobs_words "$path *")
        end
    end
    for word in $words
        switch $word
            case '@*'
                $done[1..$at] completion (string sub -s 2 -- $word) 2>/dev/null
            case '*'
                echo $word
        end
    end
end

for command in manage.py django-admin python python3
    complete -c $command -n 'contains -- jobs (commandline -opc)' -f -a '(__jobexec_jobs_complete)'
end
