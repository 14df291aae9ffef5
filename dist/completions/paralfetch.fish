# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_paralfetch_global_optspecs
    string join \n state-dir= h/help V/version
end

function __fish_paralfetch_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_paralfetch_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_paralfetch_using_subcommand
    set -l cmd (__fish_paralfetch_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c paralfetch -n "__fish_paralfetch_needs_command" -l state-dir -d 'Directory of the profiles' -r -F
complete -c paralfetch -n "__fish_paralfetch_needs_command" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -s V -l version -d 'Print version'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "learn" -d 'Record one launch of CMD from a cold cache, as its profile'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "run" -d 'Start CMD and prefetch its profile while it runs'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "show" -d 'Draw what the profile of APP covers of each file'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "list" -d 'List your apps, their launches, and what prefetching saves'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "forget" -d 'Remove the profile of APP, and its launches'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "export" -d 'Write the profile of APP for other machines'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "import" -d 'Take exported profiles for the first launches of their apps'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "bench" -d 'Compare cold, prefetched and warm launches of CMD'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "doctor" -d 'Check what works on this system, what does not, and what that costs'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "probe" -d 'Measure what reads cost from the drive of a device or path'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "enable" -d 'Manage APP: learn its next launch, prefetch those after it'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "relearn" -d 'Learn the next launch of APP anew; the old profile prefetches it'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "disable" -d 'Leave APP alone from its next launch on'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "mode" -d 'Print which apps the service manages, or set it'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "status" -d 'Print what was gained, or all that is known of APP'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "stats" -d 'Print the newest launches of APP, or of all apps'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "plot" -d 'Write a page for browsers about the newest launches of APP'
complete -c paralfetch -n "__fish_paralfetch_needs_command" -f -a "watch" -d 'Print launches as they begin and end'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l json -d 'Report as one line of JSON, on standard error or into FILE, instead of text' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l timeout -d 'Longest time that a launch may take [default: 30, or 300 to learn exactly from a disk with heads]' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l shift -d 'Read metadata so much earlier than data, in KiB (metadata shift), instead of as it suits the drive' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l distance -d 'Merge reads of neighbours that are so many reads apart at most (I/O distance)' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l hole -d 'Read along up to so many pages between two that are needed; 0: none' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l root -d 'Run CMD chrooted into DIR, such as a mounted image' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -s v -l verbose -d 'Say also how the launch was recorded and scheduled'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l as-read -d 'Learn what the drive reads with its usual readahead, instead of exactly the pages that the app touches'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -l live -d 'Learn from the launch as it comes, whatever is cached: drop no cache and change no readahead'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand learn" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand run" -l report -d 'List what the launch still had to read itself, and why, once the app has ended: as text on standard error, or as JSON lines into FILE' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand run" -l root -d 'Run CMD chrooted into DIR, such as a mounted image' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand run" -s v -l verbose -d 'Report on standard error what was prefetched, skipped and missed, once the app has ended'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand run" -l no-shield -d 'Leave the settings of the system as they are, also if other programs\' writes are in the way of the launch'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand run" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand show" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand show" -l entries -d 'List the prefetch entries, in their order, instead of drawing files'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand show" -l json -d 'Print JSON, which has the entries'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand show" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand list" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand list" -l json -d 'Print JSON'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand list" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand forget" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand forget" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand export" -s o -l output -d 'Write to FILE instead of standard output' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand export" -l all -d 'Write a file for each app that was learned into DIR, for an image or a package' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand export" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand export" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand import" -l root -d 'Import for apps that are chrooted into DIR, such as a mounted image' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand import" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l runs -d 'Launches of each scenario' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l scenarios -d 'Scenarios to compare' -r -f -a "cold\t'Nothing cached'
prefetch\t'Nothing cached, with prefetching'
warm\t'Everything cached, without prefetching'"
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l until -d 'What ends a launch' -r -f -a "exit\t'The app\'s exit'
quiet\t'The arrival of the completion block, the last that the app read before its disk fell quiet; the app is then ended'"
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l export-json -d 'Write the results to FILE as JSON, in which `results` is as in hyperfine\'s' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l export-markdown -d 'Write the times to FILE as a table in Markdown' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l timeout -d 'Longest time that a launch may take [default: 30, or 300 to learn exactly from a disk with heads]' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l root -d 'Run CMD chrooted into DIR, such as a mounted image' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l json -d 'Print the results as JSON'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -s v -l verbose -d 'Say also what is done, and leave what the app prints on standard error'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -l as-read -d 'Learn what the drive reads with its usual readahead, instead of exactly the pages that the app touches'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand doctor" -l json -d 'Print JSON'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand probe" -l busy -d 'Measure also while other programs use the drive'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand probe" -l json -d 'Print JSON'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand probe" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand enable" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand enable" -l notify -d 'Show on the desktop what became of it, as menus of file managers do'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand enable" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand relearn" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand relearn" -l notify -d 'Show on the desktop what became of it, as menus of file managers do'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand relearn" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand disable" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand disable" -l notify -d 'Show on the desktop what became of it, as menus of file managers do'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand disable" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand mode" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand status" -l user -d 'APP as this user launches it; without it, as you do, and for root as all users do' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand status" -s v -l verbose -d 'Print also what can be observed here, and what was done about other programs\' writes'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand status" -l json -d 'Print JSON'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand status" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand stats" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand stats" -l json -d 'Print JSON'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand stats" -s h -l help -d 'Print help'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand plot" -s o -l output -d 'Write to FILE, or to standard output if it is -; without it, to APP-launches.html in this directory' -r -F
complete -c paralfetch -n "__fish_paralfetch_using_subcommand plot" -l user -d 'Apps and launches of this user; without it, your own, and all users\' for root' -r
complete -c paralfetch -n "__fish_paralfetch_using_subcommand plot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand watch" -l json -d 'Print JSON, a line for each event'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand watch" -l notify -d 'Print nothing, and show on the desktop once for each app that it has become faster'
complete -c paralfetch -n "__fish_paralfetch_using_subcommand watch" -s h -l help -d 'Print help'
