# fish completion for sandlock: written by `sandlock completion fish`.

# Options of a verb ('' for those before it) that take the next word.
function __sandlock_takes_value
	switch "$argv[1] $argv[2]"
		case ' --root' ' --log' ' --log-format' ' --log-level' ' --cgroup-manager' ' --rootless' 'create --bundle' 'create -b' 'create --config' 'create --ask-exec' 'create --ask-open' 'create --ask-connect' 'create --ask' 'create --ask-timeout' 'create --branch' 'create --on-exit' 'create --on-error' 'create --storage' 'create --quota' 'create --max-disk' 'create --console-socket' 'create --pidfd-socket' 'create --pid-file' 'create --preserve-fds' 'run --bundle' 'run -b' 'run --config' 'run --fs-read' 'run -r' 'run --fs-write' 'run -w' 'run --fs-deny' 'run --fs-mount' 'run --chroot' 'run --workdir' 'run --cwd' 'run --env' 'run --user' 'run --timeout' 'run -t' 'run --ask-exec' 'run --ask-open' 'run --ask-connect' 'run --ask' 'run --ask-timeout' 'run --max-memory' 'run -m' 'run --max-processes' 'run -P' 'run --max-open-files' 'run --profile' 'run -p' 'run --profile-file' 'run --net-allow' 'run --net-deny' 'run --net-allow-bind' 'run --net-deny-bind' 'run --extra-allow-syscall' 'run --extra-deny-syscall' 'run --allow-degraded' 'run --disable' 'run --isolation' 'run --stage' 'run --stage-retries' 'run --name' 'run --exec-shell' 'run -e' 'run --status-fd' 'run --branch' 'run --on-exit' 'run --on-error' 'run --storage' 'run --quota' 'run --max-disk' 'run --console-socket' 'run --pidfd-socket' 'run --pid-file' 'run --preserve-fds' 'exec --process' 'exec -p' 'exec --cwd' 'exec --user' 'exec -u' 'exec --additional-gids' 'exec -g' 'exec --env' 'exec -e' 'exec --cap' 'exec -c' 'exec --apparmor' 'exec --process-label' 'exec --cgroup' 'exec --console-socket' 'exec --pidfd-socket' 'exec --pid-file' 'exec --preserve-fds' 'state --format' 'list --format' 'list -f' 'ps --format' 'ps -f' 'update --resources' 'update -r' 'update --memory' 'update --memory-reservation' 'update --memory-swap' 'update --kernel-memory' 'update --kernel-memory-tcp' 'update --pids-limit' 'update --cpu-share' 'update --cpu-quota' 'update --cpu-period' 'update --cpu-burst' 'update --cpu-idle' 'update --cpu-rt-runtime' 'update --cpu-rt-period' 'update --cpuset-cpus' 'update --cpuset-mems' 'update --blkio-weight' 'events --interval' 'events --format' 'spec --bundle' 'spec -b' 'features --format' 'diff --color' 'diff --format' 'commit --format' 'abort --format' 'branches --format' 'recover --format' 'ports --format' 'logs --format' 'why --format' 'approvals --format' 'approve --reason' 'deny --reason' 'check --format' 'profile --format' 'profile -f' 'completion --man' 'version --format'
			return 0
	end
	return 1
end

# The verb (or '') and the number of the operand at the cursor; fails
# behind the first operand of verbs whose options end there.
function __sandlock_where
	set -l words (commandline -opc)
	set -l verb ''
	set -l n 1
	set -e words[1]
	while set -q words[1]
		switch $words[1]
			case '-*'
				if __sandlock_takes_value "$verb" $words[1]
					set -e words[1]
				end
			case '*'
				if test -z "$verb"
					set verb $words[1]
				else
					set n (math $n + 1)
				end
		end
		set -q words[1]; and set -e words[1]
	end
	echo $verb
	echo $n
end

function __sandlock_no_verb
	set -l where (__sandlock_where)
	test -z "$where[1]"
end

# __sandlock_options VERB: its options are possible here.
function __sandlock_options
	set -l where (__sandlock_where)
	test "$where[1]" = $argv[1]; or return 1
	contains -- $argv[1] exec ps ; or return 0
	test $where[2] = 1
end

# __sandlock_operand VERB NUMBER: this operand is next; 0: any.
function __sandlock_operand
	set -l where (__sandlock_where)
	test "$where[1]" = $argv[1]; or return 1
	test $argv[2] = 0; or test $where[2] = $argv[2]
end

# __sandlock_names VERB: with the --root of the command line.
function __sandlock_names
	set -l words (commandline -opc)
	set -l root
	for i in (seq (count $words))
		if string match -q -- '--root=*' $words[$i]
			set root $words[$i]
		else if test $words[$i] = --root; and set -q words[(math $i + 1)]
			set root --root $words[(math $i + 1)]
		end
	end
	$words[1] $root $argv[1] -q 2>/dev/null
end

complete -c sandlock -f
complete -c sandlock-oci -w sandlock
complete -c sandlock -n '__sandlock_no_verb' -l root -x -a '(__fish_complete_directories)' -d 'directory for what is known of running sandboxes (default: $SANDLOCK_ROOT, else /dev/shm/sandlock-UID)'
complete -c sandlock -n '__sandlock_no_verb' -l log -r -F -d 'append errors and warnings to FILE, too'
complete -c sandlock -n '__sandlock_no_verb' -l log-format -x -a 'text json' -d 'format of the lines in the log'
complete -c sandlock -n '__sandlock_no_verb' -l log-level -x -a 'error warning info debug' -d 'least important lines to write (default: warning)'
complete -c sandlock -n '__sandlock_no_verb' -l debug -d 'the same as --log-level=debug'
complete -c sandlock -n '__sandlock_no_verb' -l cgroup-manager -x -a 'cgroupfs systemd disabled' -d 'who makes cgroups; disabled: none are made'
complete -c sandlock -n '__sandlock_no_verb' -l systemd-cgroup -d 'the same as --cgroup-manager=systemd'
complete -c sandlock -n '__sandlock_no_verb' -l rootless -x -a 'auto true false' -d 'accepted for compatibility; what is possible is found out'
complete -c sandlock -n '__sandlock_no_verb' -s v -l version -d 'print the version and what is built in'
complete -c sandlock -n '__sandlock_no_verb' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a create -d 'create a sandbox from a bundle'
complete -c sandlock -n '__sandlock_options create' -s b -l bundle -x -a '(__fish_complete_directories)' -d 'directory of the bundle (default: the current one)'
complete -c sandlock -n '__sandlock_options create' -l config -r -F -d 'configuration to use instead of config.json in the bundle'
complete -c sandlock -n '__sandlock_options create' -l ask-exec -x -d 'ask before such a program is executed: a name, path, directory, pattern or *'
complete -c sandlock -n '__sandlock_options create' -l ask-open -r -F -d 'ask before such a file is opened: a path, directory or pattern'
complete -c sandlock -n '__sandlock_options create' -l ask-connect -x -d 'ask before something is sent to such a destination, as for --net-allow'
complete -c sandlock -n '__sandlock_options create' -l ask -x -d 'who is asked: tty, socket (sandlock approve), never, or a program\'s path'
complete -c sandlock -n '__sandlock_options create' -l ask-timeout -x -d 'deny what nobody has answered by then (default: 120, network 20)'
complete -c sandlock -n '__sandlock_options create' -l control-socket -d 'let other commands list and ask the sandbox (default); without, ps does not show it'
complete -c sandlock -n '__sandlock_options create' -l no-control-socket
complete -c sandlock -n '__sandlock_options create' -l no-supervisor -d 'run without a process that answers for the sandbox: no control socket, and no rule that needs one'
complete -c sandlock -n '__sandlock_options create' -l branch -x -a 'auto none' -d 'none: a bundle writes to its root file system itself, at once; a command of the host has no workdir'
complete -c sandlock -n '__sandlock_options create' -l on-exit -x -a 'commit abort keep defer' -d 'what becomes of the branch after success (default: defer)'
complete -c sandlock -n '__sandlock_options create' -l on-error -x -a 'commit abort keep defer' -d 'what becomes of it after a failure, signal or timeout (default: defer)'
complete -c sandlock -n '__sandlock_options create' -l storage -x -a '(__fish_complete_directories)' -d 'where the branch is stored'
complete -c sandlock -n '__sandlock_options create' -l quota -l max-disk -x -d 'what the branch may take on disk, in bytes or with K, M, G: beyond that everything is killed'
complete -c sandlock -n '__sandlock_options create' -l durable -d 'honour every fsync inside, at the price of slower writes'
complete -c sandlock -n '__sandlock_options create' -l no-durable
complete -c sandlock -n '__sandlock_options create' -l console-socket -r -F -d 'unix socket that is sent the terminal\'s master'
complete -c sandlock -n '__sandlock_options create' -l pidfd-socket -r -F -d 'unix socket that is sent a pidfd of the process'
complete -c sandlock -n '__sandlock_options create' -l pid-file -r -F -d 'write the process id there'
complete -c sandlock -n '__sandlock_options create' -l no-pivot -d 'move the root instead of pivot_root, for a root on ramfs'
complete -c sandlock -n '__sandlock_options create' -l no-new-keyring -d 'stay in the session keyring of the caller'
complete -c sandlock -n '__sandlock_options create' -l preserve-fds -x -d 'pass N further file descriptors, from 3 on'
complete -c sandlock -n '__sandlock_options create' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a start -d 'start the program of a created sandbox'
complete -c sandlock -n '__sandlock_options start' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand start 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a run -d 'create a sandbox, run its program, tidy up'
complete -c sandlock -n '__sandlock_options run' -s b -l bundle -x -a '(__fish_complete_directories)' -d 'directory of the bundle (default: the current one)'
complete -c sandlock -n '__sandlock_options run' -l config -r -F -d 'configuration to use instead of config.json in the bundle'
complete -c sandlock -n '__sandlock_options run' -s d -l detach -d 'return once the program has started'
complete -c sandlock -n '__sandlock_options run' -l no-detach
complete -c sandlock -n '__sandlock_options run' -l keep -d 'keep the ended sandbox until it is deleted'
complete -c sandlock -n '__sandlock_options run' -s r -l fs-read -r -F -d 'let the command read this, instead of the system\'s directories (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -s w -l fs-write -r -F -d 'let it write this through, past the branch (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l fs-deny -r -F -d 'deny this: files cannot be opened, directories are empty (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l fs-mount -x -d 'show a directory or file of the host at another place (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l chroot -x -a '(__fish_complete_directories)' -d 'the command\'s root, on a branch unless workdirs in it are named'
complete -c sandlock -n '__sandlock_options run' -l workdir -x -a '(__fish_complete_directories)' -d 'a directory that is worked in, on a branch (default: the current one; may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l cwd -x -a '(__fish_complete_directories)' -d 'where the command starts (default: the workdir)'
complete -c sandlock -n '__sandlock_options run' -l env -x -d 'add a variable to the command\'s environment, or keep one (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l clean-env -d 'pass on only PATH, HOME, USER, SHELL, TERM, LANG, LC_* and TZ'
complete -c sandlock -n '__sandlock_options run' -l no-clean-env
complete -c sandlock -n '__sandlock_options run' -l user -x -d 'the ids that the command has inside'
complete -c sandlock -n '__sandlock_options run' -s t -l timeout -x -d 'kill everything after so many seconds (or 500ms, 5m, 1h): exit status 124'
complete -c sandlock -n '__sandlock_options run' -l ask-exec -x -d 'ask before such a program is executed: a name, path, directory, pattern or *'
complete -c sandlock -n '__sandlock_options run' -l ask-open -r -F -d 'ask before such a file is opened: a path, directory or pattern'
complete -c sandlock -n '__sandlock_options run' -l ask-connect -x -d 'ask before something is sent to such a destination, as for --net-allow'
complete -c sandlock -n '__sandlock_options run' -l ask -x -d 'who is asked: tty, socket (sandlock approve), never, or a program\'s path'
complete -c sandlock -n '__sandlock_options run' -l ask-timeout -x -d 'deny what nobody has answered by then (default: 120, network 20)'
complete -c sandlock -n '__sandlock_options run' -s m -l max-memory -x -d 'memory that the command may use, in bytes or with K, M, G'
complete -c sandlock -n '__sandlock_options run' -s P -l max-processes -x -d 'how many processes and threads it may have'
complete -c sandlock -n '__sandlock_options run' -l max-open-files -x -d 'open files of each of its processes'
complete -c sandlock -n '__sandlock_options run' -s p -l profile -x -d 'begin with what this profile says; see sandlock-profile(1)'
complete -c sandlock -n '__sandlock_options run' -l profile-file -r -F -d 'the same with a profile that lies anywhere'
complete -c sandlock -n '__sandlock_options run' -l net-allow -x -d 'let it connect there, in the host\'s network: [tcp://|udp://|icmp://]HOST[:PORTS], ADDRESS/BITS, *, or unix:PATH (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l net-deny -x -d 'let it connect anywhere but there (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l net-allow-bind -x -d 'let it bind these ports of the host: 8080,9000-9005 or * (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l net-deny-bind -x -d 'let it bind any port but these (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l port-remap -d 'ports that it binds are its own, free ports of the host stand behind them: see ps'
complete -c sandlock -n '__sandlock_options run' -l no-port-remap
complete -c sandlock -n '__sandlock_options run' -l extra-allow-syscall -x -d 'allow the system calls of GROUP: debug, keys, io_uring or sysv_ipc (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l extra-deny-syscall -x -d 'deny this system call, or a whole group, with EPERM (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l allow-degraded -x -d 'run although this kernel lacks PROTECTION: fs-refer, fs-truncate, net-tcp, fs-ioctl-dev, signal-scope or abstract-unix-scope (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l disable -x -d 'run without PROTECTION although this kernel has it (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l isolation -x -a 'auto namespaces notify' -d 'what keeps it in: namespaces, or where none can be made Landlock and a supervisor (default: auto)'
complete -c sandlock -n '__sandlock_options run' -l control-socket -d 'let other commands list and ask the sandbox (default); without, ps does not show it'
complete -c sandlock -n '__sandlock_options run' -l no-control-socket
complete -c sandlock -n '__sandlock_options run' -l explain -d 'put on record what files were out of reach, too: slower; see sandlock-logs(1)'
complete -c sandlock -n '__sandlock_options run' -l no-supervisor -d 'run without a process that answers for the sandbox: no control socket, and no rule that needs one'
complete -c sandlock -n '__sandlock_options run' -l stage -r -F -d 'run what this profile says, or each of its [[stage]] tables, as stages of a transaction (may be repeated)'
complete -c sandlock -n '__sandlock_options run' -l stage-retries -x -d 'undo a stage that fails, and run it again, up to N times'
complete -c sandlock -n '__sandlock_options run' -l keep-stages -d 'when a stage fails undo only that one: what those before it wrote waits as a branch'
complete -c sandlock -n '__sandlock_options run' -l name -x -d 'name of the sandbox and its branch (default: one is made up)'
complete -c sandlock -n '__sandlock_options run' -l dry-run -d 'list what the command changed on standard error, and discard it'
complete -c sandlock -n '__sandlock_options run' -s e -l exec-shell -x -d 'run /bin/sh -c TEXT'
complete -c sandlock -n '__sandlock_options run' -l status-fd -x -d 'write a JSON line about the end of the command to this descriptor'
complete -c sandlock -n '__sandlock_options run' -l branch -x -a 'auto none' -d 'none: a bundle writes to its root file system itself, at once; a command of the host has no workdir'
complete -c sandlock -n '__sandlock_options run' -l on-exit -x -a 'commit abort keep defer' -d 'what becomes of the branch after success (default: defer)'
complete -c sandlock -n '__sandlock_options run' -l on-error -x -a 'commit abort keep defer' -d 'what becomes of it after a failure, signal or timeout (default: defer)'
complete -c sandlock -n '__sandlock_options run' -l storage -x -a '(__fish_complete_directories)' -d 'where the branch is stored'
complete -c sandlock -n '__sandlock_options run' -l quota -l max-disk -x -d 'what the branch may take on disk, in bytes or with K, M, G: beyond that everything is killed'
complete -c sandlock -n '__sandlock_options run' -l durable -d 'honour every fsync inside, at the price of slower writes'
complete -c sandlock -n '__sandlock_options run' -l no-durable
complete -c sandlock -n '__sandlock_options run' -l console-socket -r -F -d 'unix socket that is sent the terminal\'s master'
complete -c sandlock -n '__sandlock_options run' -l pidfd-socket -r -F -d 'unix socket that is sent a pidfd of the process'
complete -c sandlock -n '__sandlock_options run' -l pid-file -r -F -d 'write the process id there'
complete -c sandlock -n '__sandlock_options run' -l no-pivot -d 'move the root instead of pivot_root, for a root on ramfs'
complete -c sandlock -n '__sandlock_options run' -l no-new-keyring -d 'stay in the session keyring of the caller'
complete -c sandlock -n '__sandlock_options run' -l preserve-fds -x -d 'pass N further file descriptors, from 3 on'
complete -c sandlock -n '__sandlock_options run' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a exec -d 'run another program in a running sandbox'
complete -c sandlock -n '__sandlock_options exec' -s d -l detach -d 'return once the program has started'
complete -c sandlock -n '__sandlock_options exec' -l no-detach
complete -c sandlock -n '__sandlock_options exec' -s p -l process -r -F -d 'process.json to run instead of a command line'
complete -c sandlock -n '__sandlock_options exec' -l cwd -x -d 'working directory inside'
complete -c sandlock -n '__sandlock_options exec' -s u -l user -x -d 'user and group inside, as numbers'
complete -c sandlock -n '__sandlock_options exec' -s g -l additional-gids -x -d 'additional group (may be repeated)'
complete -c sandlock -n '__sandlock_options exec' -s e -l env -x -d 'add a variable to the environment (may be repeated)'
complete -c sandlock -n '__sandlock_options exec' -s t -l tty -d 'give the process a terminal'
complete -c sandlock -n '__sandlock_options exec' -l no-tty
complete -c sandlock -n '__sandlock_options exec' -s c -l cap -x -d 'add a capability to every set (may be repeated)'
complete -c sandlock -n '__sandlock_options exec' -l no-new-privs -d 'set-id programs and file capabilities have no effect'
complete -c sandlock -n '__sandlock_options exec' -l apparmor -x -d 'AppArmor profile of the process'
complete -c sandlock -n '__sandlock_options exec' -l process-label -x -d 'SELinux label of the process'
complete -c sandlock -n '__sandlock_options exec' -l cgroup -x -d 'run in this cgroup below the sandbox\'s own (may be repeated)'
complete -c sandlock -n '__sandlock_options exec' -l ignore-paused -d 'go on although the sandbox is paused; the process then waits, too'
complete -c sandlock -n '__sandlock_options exec' -l console-socket -r -F -d 'unix socket that is sent the terminal\'s master'
complete -c sandlock -n '__sandlock_options exec' -l pidfd-socket -r -F -d 'unix socket that is sent a pidfd of the process'
complete -c sandlock -n '__sandlock_options exec' -l pid-file -r -F -d 'write the process id there'
complete -c sandlock -n '__sandlock_options exec' -l preserve-fds -x -d 'pass N further file descriptors, from 3 on'
complete -c sandlock -n '__sandlock_options exec' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand exec 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a kill -d 'end a sandbox, or send its program a signal'
complete -c sandlock -n '__sandlock_options kill' -s a -l all -d 'send the signal to every process inside'
complete -c sandlock -n '__sandlock_options kill' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand kill 1' -a '(__sandlock_names list)'
complete -c sandlock -n '__sandlock_operand kill 2' -a 'TERM KILL INT HUP QUIT USR1 USR2 STOP CONT'
complete -c sandlock -n __sandlock_no_verb -a delete -d 'remove an ended sandbox'
complete -c sandlock -n '__sandlock_options delete' -s f -l force -d 'kill it first if it runs; no error if it does not exist'
complete -c sandlock -n '__sandlock_options delete' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand delete 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a state -d 'print the state of a sandbox as JSON'
complete -c sandlock -n '__sandlock_options state' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options state' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand state 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a list -d 'list sandboxes as runc does'
complete -c sandlock -n '__sandlock_options list' -s q -l quiet -d 'only the names'
complete -c sandlock -n '__sandlock_options list' -s f -l format -x -a 'table json' -d 'how to print it (default: table)'
complete -c sandlock -n '__sandlock_options list' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a ps -d 'list sandboxes, or the processes of one'
complete -c sandlock -n '__sandlock_options ps' -s a -l all -d 'also ended sandboxes that still have a branch'
complete -c sandlock -n '__sandlock_options ps' -s f -l format -x -a 'table json' -d 'how to print it (default: table)'
complete -c sandlock -n '__sandlock_options ps' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand ps 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a pause -d 'suspend every process of a sandbox'
complete -c sandlock -n '__sandlock_options pause' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand pause 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a resume -d 'let a paused sandbox go on'
complete -c sandlock -n '__sandlock_options resume' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand resume 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a update -d 'change the limits of a sandbox'
complete -c sandlock -n '__sandlock_options update' -s r -l resources -r -F -d 'a JSON object as linux.resources of config.json; -: standard input'
complete -c sandlock -n '__sandlock_options update' -l memory -x -d 'memory limit; k, m, g are understood, -1: none'
complete -c sandlock -n '__sandlock_options update' -l memory-reservation -x -d 'soft memory limit'
complete -c sandlock -n '__sandlock_options update' -l memory-swap -x -d 'limit of memory and swap together, -1: none'
complete -c sandlock -n '__sandlock_options update' -l pids-limit -x -d 'number of processes and threads, -1: no limit'
complete -c sandlock -n '__sandlock_options update' -l cpu-share -x -d 'relative weight for CPU time'
complete -c sandlock -n '__sandlock_options update' -l cpu-quota -x -d 'CPU time in each period, -1: no limit'
complete -c sandlock -n '__sandlock_options update' -l cpu-period -x -d 'length of the period'
complete -c sandlock -n '__sandlock_options update' -l cpu-burst -x -d 'unused time that may be saved for later periods'
complete -c sandlock -n '__sandlock_options update' -l cpu-idle -x -d '1: run only when nobody else wants the CPU'
complete -c sandlock -n '__sandlock_options update' -l cpu-rt-runtime -x -d 'real-time share of each real-time period'
complete -c sandlock -n '__sandlock_options update' -l cpu-rt-period -x -d 'length of the real-time period'
complete -c sandlock -n '__sandlock_options update' -l cpuset-cpus -x -d 'CPUs that may be used, such as 0-3,8'
complete -c sandlock -n '__sandlock_options update' -l cpuset-mems -x -d 'memory nodes that may be used'
complete -c sandlock -n '__sandlock_options update' -l blkio-weight -x -d 'relative weight for block I/O, 10 to 1000'
complete -c sandlock -n '__sandlock_options update' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand update 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a events -d 'print what a sandbox uses, as JSON lines'
complete -c sandlock -n '__sandlock_options events' -l stats -d 'print the statistics once and end'
complete -c sandlock -n '__sandlock_options events' -l interval -x -d 'time between two lines, such as 500ms, 5s, 1m (default: 5s)'
complete -c sandlock -n '__sandlock_options events' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options events' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand events 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a spec -d 'write a config.json to start from'
complete -c sandlock -n '__sandlock_options spec' -s b -l bundle -x -a '(__fish_complete_directories)' -d 'directory of the bundle (default: the current one)'
complete -c sandlock -n '__sandlock_options spec' -l rootless -d 'for a user without privileges: with a user namespace'
complete -c sandlock -n '__sandlock_options spec' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a features -d 'print what this program supports, as JSON'
complete -c sandlock -n '__sandlock_options features' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options features' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a diff -d 'show what a sandbox changed'
complete -c sandlock -n '__sandlock_options diff' -l name-status -d 'only the letter and the name of each change'
complete -c sandlock -n '__sandlock_options diff' -s z -l null -d 'with --name-status: end letters and names with NUL, quote nothing'
complete -c sandlock -n '__sandlock_options diff' -l stat -d 'how much of each file changed, and the sum'
complete -c sandlock -n '__sandlock_options diff' -l summary -d 'one line for a directory that is new or replaced as a whole'
complete -c sandlock -n '__sandlock_options diff' -s p -l patch -d 'the contents of the changes as a patch in git\'s format'
complete -c sandlock -n '__sandlock_options diff' -l digest -d 'with --format=json: the SHA-256 of both sides of each file'
complete -c sandlock -n '__sandlock_options diff' -s v -l verbose -d 'also what was below deleted directories, and mere changes of mtime'
complete -c sandlock -n '__sandlock_options diff' -l exit-code -d 'exit with 1 if there are changes'
complete -c sandlock -n '__sandlock_options diff' -l color -x -a 'auto always never' -d 'colour the letters and the patch (default: auto, on a terminal)'
complete -c sandlock -n '__sandlock_options diff' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options diff' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand diff 1' -a '(__sandlock_names branches)'
complete -c sandlock -n __sandlock_no_verb -a commit -d 'publish what a sandbox changed'
complete -c sandlock -n '__sandlock_options commit' -l skip-conflicts -d 'publish the rest; what is in conflict stays in the branch'
complete -c sandlock -n '__sandlock_options commit' -l force -d 'overwrite what the host changed meanwhile, and commit a torn branch'
complete -c sandlock -n '__sandlock_options commit' -l special -d 'publish sockets and device nodes, too'
complete -c sandlock -n '__sandlock_options commit' -s q -l quiet -d 'say nothing about success'
complete -c sandlock -n '__sandlock_options commit' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options commit' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand commit 1' -a '(__sandlock_names branches)'
complete -c sandlock -n __sandlock_no_verb -a abort -d 'discard what a sandbox changed'
complete -c sandlock -n '__sandlock_options abort' -s q -l quiet -d 'say nothing about success'
complete -c sandlock -n '__sandlock_options abort' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options abort' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand abort 1' -a '(__sandlock_names branches)'
complete -c sandlock -n __sandlock_no_verb -a branches -d 'list stored branches'
complete -c sandlock -n '__sandlock_options branches' -s q -l quiet -d 'only the names'
complete -c sandlock -n '__sandlock_options branches' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options branches' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand branches 0' -a '(__sandlock_names branches)'
complete -c sandlock -n __sandlock_no_verb -a recover -d 'finish what a crash interrupted'
complete -c sandlock -n '__sandlock_options recover' -s a -l all -d 'every branch that needs it'
complete -c sandlock -n '__sandlock_options recover' -l rollback -d 'take an interrupted commit back instead of finishing it'
complete -c sandlock -n '__sandlock_options recover' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options recover' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand recover 1' -a '(__sandlock_names branches)'
complete -c sandlock -n __sandlock_no_verb -a inspect -d 'print what a running sandbox was asked for'
complete -c sandlock -n '__sandlock_options inspect' -l toml -d 'print a profile instead of JSON'
complete -c sandlock -n '__sandlock_options inspect' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand inspect 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a ports -d 'list the remapped ports of a running sandbox'
complete -c sandlock -n '__sandlock_options ports' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options ports' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand ports 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a logs -d 'list what was refused to a sandbox'
complete -c sandlock -n '__sandlock_options logs' -s f -l follow -d 'go on with what is refused from now on, until the sandbox ends'
complete -c sandlock -n '__sandlock_options logs' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options logs' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand logs 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a why -d 'explain what a sandbox is not allowed'
complete -c sandlock -n '__sandlock_options why' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options why' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand why 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a approvals -d 'list what sandboxes wait for an answer to'
complete -c sandlock -n '__sandlock_options approvals' -s w -l watch -d 'go on with what is asked and answered from now on, until the sandbox ends'
complete -c sandlock -n '__sandlock_options approvals' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options approvals' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand approvals 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a approve -d 'allow what a sandbox asks for'
complete -c sandlock -n '__sandlock_options approve' -l reason -x -d 'why, for the record'
complete -c sandlock -n '__sandlock_options approve' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand approve 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a deny -d 'deny what a sandbox asks for'
complete -c sandlock -n '__sandlock_options deny' -l reason -x -d 'why, for the record'
complete -c sandlock -n '__sandlock_options deny' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand deny 1' -a '(__sandlock_names list)'
complete -c sandlock -n __sandlock_no_verb -a check -d 'say what this machine can do, and what is missing'
complete -c sandlock -n '__sandlock_options check' -l syscalls -d 'print instead which system calls a command of the host is denied'
complete -c sandlock -n '__sandlock_options check' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options check' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a profile -d 'list, show and check profiles'
complete -c sandlock -n '__sandlock_options profile' -s q -l quiet -d 'only the names'
complete -c sandlock -n '__sandlock_options profile' -s f -l format -x -a 'table json' -d 'how to print it (default: table)'
complete -c sandlock -n '__sandlock_options profile' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand profile 1' -a 'list show check'
complete -c sandlock -n __sandlock_no_verb -a completion -d 'print the completion script of a shell'
complete -c sandlock -n '__sandlock_options completion' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand completion 1' -a 'bash zsh fish'
complete -c sandlock -n __sandlock_no_verb -a version -d 'print the version and what is built in'
complete -c sandlock -n '__sandlock_options version' -l format -x -a 'text json' -d 'how to print it'
complete -c sandlock -n '__sandlock_options version' -s h -l help -d 'print this help'
complete -c sandlock -n __sandlock_no_verb -a help -d 'explain a verb'
complete -c sandlock -n '__sandlock_options help' -s h -l help -d 'print this help'
complete -c sandlock -n '__sandlock_operand help 1' -a 'create'
complete -c sandlock -n '__sandlock_operand help 1' -a 'start'
complete -c sandlock -n '__sandlock_operand help 1' -a 'run'
complete -c sandlock -n '__sandlock_operand help 1' -a 'exec'
complete -c sandlock -n '__sandlock_operand help 1' -a 'kill'
complete -c sandlock -n '__sandlock_operand help 1' -a 'delete'
complete -c sandlock -n '__sandlock_operand help 1' -a 'state'
complete -c sandlock -n '__sandlock_operand help 1' -a 'list'
complete -c sandlock -n '__sandlock_operand help 1' -a 'ps'
complete -c sandlock -n '__sandlock_operand help 1' -a 'pause'
complete -c sandlock -n '__sandlock_operand help 1' -a 'resume'
complete -c sandlock -n '__sandlock_operand help 1' -a 'update'
complete -c sandlock -n '__sandlock_operand help 1' -a 'events'
complete -c sandlock -n '__sandlock_operand help 1' -a 'spec'
complete -c sandlock -n '__sandlock_operand help 1' -a 'features'
complete -c sandlock -n '__sandlock_operand help 1' -a 'diff'
complete -c sandlock -n '__sandlock_operand help 1' -a 'commit'
complete -c sandlock -n '__sandlock_operand help 1' -a 'abort'
complete -c sandlock -n '__sandlock_operand help 1' -a 'branches'
complete -c sandlock -n '__sandlock_operand help 1' -a 'recover'
complete -c sandlock -n '__sandlock_operand help 1' -a 'inspect'
complete -c sandlock -n '__sandlock_operand help 1' -a 'ports'
complete -c sandlock -n '__sandlock_operand help 1' -a 'logs'
complete -c sandlock -n '__sandlock_operand help 1' -a 'why'
complete -c sandlock -n '__sandlock_operand help 1' -a 'approvals'
complete -c sandlock -n '__sandlock_operand help 1' -a 'approve'
complete -c sandlock -n '__sandlock_operand help 1' -a 'deny'
complete -c sandlock -n '__sandlock_operand help 1' -a 'check'
complete -c sandlock -n '__sandlock_operand help 1' -a 'profile'
complete -c sandlock -n '__sandlock_operand help 1' -a 'completion'
complete -c sandlock -n '__sandlock_operand help 1' -a 'version'
complete -c sandlock -n '__sandlock_operand help 1' -a 'help'
