# bash completion for sandlock: written by `sandlock completion bash`.
# Needs no bash-completion package.

# _sandlock_options VERB: its options; no VERB: those before it.
_sandlock_options()
{
	case $1 in
	'') echo '--root --log --log-format --log-level --debug --cgroup-manager --systemd-cgroup --rootless --version -v --help -h ' ;;
	'create') echo '--bundle -b --config --ask-exec --ask-open --ask-connect --ask --ask-timeout --control-socket --no-control-socket --no-supervisor --branch --on-exit --on-error --storage --quota --max-disk --durable --no-durable --console-socket --pidfd-socket --pid-file --no-pivot --no-new-keyring --preserve-fds --help -h ' ;;
	'start') echo '--help -h ' ;;
	'run') echo '--bundle -b --config --detach --no-detach -d --keep --fs-read -r --fs-write -w --fs-deny --fs-mount --chroot --workdir --cwd --env --clean-env --no-clean-env --user --timeout -t --ask-exec --ask-open --ask-connect --ask --ask-timeout --max-memory -m --max-processes -P --max-open-files --profile -p --profile-file --net-allow --net-deny --net-allow-bind --net-deny-bind --port-remap --no-port-remap --extra-allow-syscall --extra-deny-syscall --allow-degraded --disable --isolation --control-socket --no-control-socket --explain --no-supervisor --stage --stage-retries --keep-stages --name --dry-run --exec-shell -e --status-fd --branch --on-exit --on-error --storage --quota --max-disk --durable --no-durable --console-socket --pidfd-socket --pid-file --no-pivot --no-new-keyring --preserve-fds --help -h ' ;;
	'exec') echo '--detach --no-detach -d --process -p --cwd --user -u --additional-gids -g --env -e --tty --no-tty -t --cap -c --no-new-privs --apparmor --process-label --cgroup --ignore-paused --console-socket --pidfd-socket --pid-file --preserve-fds --help -h ' ;;
	'kill') echo '--all -a --help -h ' ;;
	'delete') echo '--force -f --help -h ' ;;
	'state') echo '--format --help -h ' ;;
	'list') echo '--quiet -q --format -f --help -h ' ;;
	'ps') echo '--all -a --format -f --help -h ' ;;
	'pause') echo '--help -h ' ;;
	'resume') echo '--help -h ' ;;
	'update') echo '--resources -r --memory --memory-reservation --memory-swap --pids-limit --cpu-share --cpu-quota --cpu-period --cpu-burst --cpu-idle --cpu-rt-runtime --cpu-rt-period --cpuset-cpus --cpuset-mems --blkio-weight --help -h ' ;;
	'events') echo '--stats --interval --format --help -h ' ;;
	'spec') echo '--bundle -b --rootless --help -h ' ;;
	'features') echo '--format --help -h ' ;;
	'diff') echo '--name-status --null -z --stat --summary --patch -p --digest --verbose -v --exit-code --color --format --help -h ' ;;
	'commit') echo '--skip-conflicts --force --special --quiet -q --format --help -h ' ;;
	'abort') echo '--quiet -q --format --help -h ' ;;
	'branches') echo '--quiet -q --format --help -h ' ;;
	'recover') echo '--all -a --rollback --format --help -h ' ;;
	'inspect') echo '--toml --help -h ' ;;
	'ports') echo '--format --help -h ' ;;
	'logs') echo '--follow -f --format --help -h ' ;;
	'why') echo '--format --help -h ' ;;
	'approvals') echo '--watch -w --format --help -h ' ;;
	'approve') echo '--reason --help -h ' ;;
	'deny') echo '--reason --help -h ' ;;
	'check') echo '--syscalls --format --help -h ' ;;
	'profile') echo '--quiet -q --format -f --help -h ' ;;
	'completion') echo '--help -h ' ;;
	'version') echo '--format --help -h ' ;;
	'help') echo '--help -h ' ;;
	esac
}

# _sandlock_value VERB,OPTION: how its value is completed, nothing for a
# flag.
_sandlock_value()
{
	case $1 in
	,--root) echo 'dir' ;;
	,--log) echo 'file' ;;
	,--log-format) echo 'words text json' ;;
	,--log-level) echo 'words error warning info debug' ;;
	,--cgroup-manager) echo 'words cgroupfs systemd disabled' ;;
	,--rootless) echo 'words auto true false' ;;
	create,--bundle | create,-b) echo 'dir' ;;
	create,--config) echo 'file' ;;
	create,--ask-exec) echo 'any' ;;
	create,--ask-open) echo 'file' ;;
	create,--ask-connect) echo 'any' ;;
	create,--ask) echo 'any' ;;
	create,--ask-timeout) echo 'any' ;;
	create,--branch) echo 'words auto none' ;;
	create,--on-exit) echo 'words commit abort keep defer' ;;
	create,--on-error) echo 'words commit abort keep defer' ;;
	create,--storage) echo 'dir' ;;
	create,--quota | create,--max-disk) echo 'any' ;;
	create,--console-socket) echo 'file' ;;
	create,--pidfd-socket) echo 'file' ;;
	create,--pid-file) echo 'file' ;;
	create,--preserve-fds) echo 'any' ;;
	run,--bundle | run,-b) echo 'dir' ;;
	run,--config) echo 'file' ;;
	run,--fs-read | run,-r) echo 'file' ;;
	run,--fs-write | run,-w) echo 'file' ;;
	run,--fs-deny) echo 'file' ;;
	run,--fs-mount) echo 'any' ;;
	run,--chroot) echo 'dir' ;;
	run,--workdir) echo 'dir' ;;
	run,--cwd) echo 'dir' ;;
	run,--env) echo 'any' ;;
	run,--user) echo 'any' ;;
	run,--timeout | run,-t) echo 'any' ;;
	run,--ask-exec) echo 'any' ;;
	run,--ask-open) echo 'file' ;;
	run,--ask-connect) echo 'any' ;;
	run,--ask) echo 'any' ;;
	run,--ask-timeout) echo 'any' ;;
	run,--max-memory | run,-m) echo 'any' ;;
	run,--max-processes | run,-P) echo 'any' ;;
	run,--max-open-files) echo 'any' ;;
	run,--profile | run,-p) echo 'any' ;;
	run,--profile-file) echo 'file' ;;
	run,--net-allow) echo 'any' ;;
	run,--net-deny) echo 'any' ;;
	run,--net-allow-bind) echo 'any' ;;
	run,--net-deny-bind) echo 'any' ;;
	run,--extra-allow-syscall) echo 'any' ;;
	run,--extra-deny-syscall) echo 'any' ;;
	run,--allow-degraded) echo 'any' ;;
	run,--disable) echo 'any' ;;
	run,--isolation) echo 'words auto namespaces notify' ;;
	run,--stage) echo 'file' ;;
	run,--stage-retries) echo 'any' ;;
	run,--name) echo 'any' ;;
	run,--exec-shell | run,-e) echo 'any' ;;
	run,--status-fd) echo 'any' ;;
	run,--branch) echo 'words auto none' ;;
	run,--on-exit) echo 'words commit abort keep defer' ;;
	run,--on-error) echo 'words commit abort keep defer' ;;
	run,--storage) echo 'dir' ;;
	run,--quota | run,--max-disk) echo 'any' ;;
	run,--console-socket) echo 'file' ;;
	run,--pidfd-socket) echo 'file' ;;
	run,--pid-file) echo 'file' ;;
	run,--preserve-fds) echo 'any' ;;
	exec,--process | exec,-p) echo 'file' ;;
	exec,--cwd) echo 'any' ;;
	exec,--user | exec,-u) echo 'any' ;;
	exec,--additional-gids | exec,-g) echo 'any' ;;
	exec,--env | exec,-e) echo 'any' ;;
	exec,--cap | exec,-c) echo 'any' ;;
	exec,--apparmor) echo 'any' ;;
	exec,--process-label) echo 'any' ;;
	exec,--cgroup) echo 'any' ;;
	exec,--console-socket) echo 'file' ;;
	exec,--pidfd-socket) echo 'file' ;;
	exec,--pid-file) echo 'file' ;;
	exec,--preserve-fds) echo 'any' ;;
	state,--format) echo 'words text json' ;;
	list,--format | list,-f) echo 'words table json' ;;
	ps,--format | ps,-f) echo 'words table json' ;;
	update,--resources | update,-r) echo 'file' ;;
	update,--memory) echo 'any' ;;
	update,--memory-reservation) echo 'any' ;;
	update,--memory-swap) echo 'any' ;;
	update,--kernel-memory) echo 'any' ;;
	update,--kernel-memory-tcp) echo 'any' ;;
	update,--pids-limit) echo 'any' ;;
	update,--cpu-share) echo 'any' ;;
	update,--cpu-quota) echo 'any' ;;
	update,--cpu-period) echo 'any' ;;
	update,--cpu-burst) echo 'any' ;;
	update,--cpu-idle) echo 'any' ;;
	update,--cpu-rt-runtime) echo 'any' ;;
	update,--cpu-rt-period) echo 'any' ;;
	update,--cpuset-cpus) echo 'any' ;;
	update,--cpuset-mems) echo 'any' ;;
	update,--blkio-weight) echo 'any' ;;
	events,--interval) echo 'any' ;;
	events,--format) echo 'words text json' ;;
	spec,--bundle | spec,-b) echo 'dir' ;;
	features,--format) echo 'words text json' ;;
	diff,--color) echo 'words auto always never' ;;
	diff,--format) echo 'words text json' ;;
	commit,--format) echo 'words text json' ;;
	abort,--format) echo 'words text json' ;;
	branches,--format) echo 'words text json' ;;
	recover,--format) echo 'words text json' ;;
	ports,--format) echo 'words text json' ;;
	logs,--format) echo 'words text json' ;;
	why,--format) echo 'words text json' ;;
	approvals,--format) echo 'words text json' ;;
	approve,--reason) echo 'any' ;;
	deny,--reason) echo 'any' ;;
	check,--format) echo 'words text json' ;;
	profile,--format | profile,-f) echo 'words table json' ;;
	completion,--man) echo 'any' ;;
	version,--format) echo 'words text json' ;;
	esac
}

# _sandlock_operand VERB NUMBER: how an operand is completed.
_sandlock_operand()
{
	case $1,$2 in
	,*) echo 'words create start run exec kill delete state list ps pause resume update events spec features diff commit abort branches recover inspect ports logs why approvals approve deny check profile completion version help' ;;
	start,1) echo sandbox ;;
	exec,1) echo sandbox ;;
	kill,2) echo 'words TERM KILL INT HUP QUIT USR1 USR2 STOP CONT' ;;
	kill,1) echo sandbox ;;
	delete,1) echo sandbox ;;
	state,1) echo sandbox ;;
	ps,1) echo sandbox ;;
	pause,1) echo sandbox ;;
	resume,1) echo sandbox ;;
	update,1) echo sandbox ;;
	events,1) echo sandbox ;;
	diff,1) echo branch ;;
	commit,1) echo branch ;;
	abort,1) echo branch ;;
	branches,*) echo branch ;;
	recover,1) echo branch ;;
	inspect,1) echo sandbox ;;
	ports,1) echo sandbox ;;
	logs,1) echo sandbox ;;
	why,1) echo sandbox ;;
	approvals,1) echo sandbox ;;
	approve,1) echo sandbox ;;
	deny,1) echo sandbox ;;
	profile,1) echo 'words list show check' ;;
	completion,1) echo 'words bash zsh fish' ;;
	help,1) echo 'words create start run exec kill delete state list ps pause resume update events spec features diff commit abort branches recover inspect ports logs why approvals approve deny check profile completion version help' ;;
	esac
}

_sandlock_offer()
{
	local cur=$1 kind=$2

	case $kind in
	dir)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	sandbox)
		mapfile -t COMPREPLY < <(compgen -W "$("${command[@]}" list -q \
			2>/dev/null)" -- "$cur") ;;
	branch)
		mapfile -t COMPREPLY < <(compgen -W "$("${command[@]}" \
			branches -q 2>/dev/null)" -- "$cur") ;;
	words\ *)
		mapfile -t COMPREPLY < <(compgen -W "${kind#words }" -- "$cur") ;;
	esac
}

_sandlock()
{
	local cur=${COMP_WORDS[COMP_CWORD]} verb='' option='' word kind i n=1
	local command=("${COMP_WORDS[0]}") only_operands=''

	COMPREPLY=()
	# Where the cursor is: in the value of $option, or the n-th operand.
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $option ]]; then
			# --option=value is three words to bash.
			[[ $word == '=' ]] && continue
			[[ $option == --root ]] && command+=(--root "$word")
			option=
		elif [[ $only_operands ]]; then
			((n++))
		elif [[ $word == -- ]]; then
			only_operands=yes
		elif [[ $word == -* ]]; then
			[[ $(_sandlock_value "$verb,$word") ]] && option=$word
		elif [[ ! $verb ]]; then
			verb=$word
		else
			((n++))
			case $verb in exec | ps) only_operands=yes ;; esac
		fi
	done
	[[ $option && $cur == '=' ]] && cur=
	if [[ $option ]]; then
		kind=$(_sandlock_value "$verb,$option")
	elif [[ $cur == -* && ! $only_operands ]]; then
		kind="words $(_sandlock_options "$verb")"
	else
		kind=$(_sandlock_operand "$verb" "$n")
	fi
	_sandlock_offer "$cur" "$kind"
}

complete -F _sandlock sandlock sandlock-oci
