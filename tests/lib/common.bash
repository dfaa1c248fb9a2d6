# What every suite loads: places of its own, a bundle, checks, and a tear-down
# that fails the test if anything was left behind.
#
#	load lib/common
#	setup() { begin; make_bundle; }
#	teardown() { finish; }
#
# begin makes $W, a directory on a real disk, and puts the runtime directory,
# the store and the cache below it. $N is a name that no other test uses.
# RUNTIME=runc runs the suites against another runtime, to check the suites.

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPO=$(dirname "$TESTS")
BUILD=${BUILD:-$REPO/build}
SANDLOCK=${SANDLOCK:-$BUILD/sandlock}
HELPERS=${HELPERS:-$BUILD/tests}
SNAP=$HELPERS/snap
PROBE=$HELPERS/probe
RUNTIME=${RUNTIME:-sandlock}
COMMAND_TIMEOUT=${COMMAND_TIMEOUT:-60}
bats_require_minimum_version 1.5.0 2>/dev/null || true
LC_ALL=C
export LC_ALL
umask 022

# The helpers are compiled where they are missing or older than their source;
# MORE_HELPERS names others than those that every suite needs.
build_helpers() {
	local h

	mkdir -p "$HELPERS"
	for h in snap probe ${MORE_HELPERS:-}; do
		[ "$HELPERS/$h" -nt "$TESTS/helpers/$h.c" ] && continue
		(
			flock 9
			[ "$HELPERS/$h" -nt "$TESTS/helpers/$h.c" ] ||
				${CC:-gcc} -O2 -static -o "$HELPERS/$h" \
					"$TESTS/helpers/$h.c" -lmd
		) 9>"$HELPERS/.lock" || return 1
	done
}

# Runs the runtime, bounded in time so that a hang is a failure.
sandlock() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "${RT[@]}" "$@"
}

# without_cgroups sandlock ARG...: in a mount namespace where none can be made.
without_cgroups() {
	local RT=(unshare -m sh -c 'umount -l /sys/fs/cgroup
		mount --bind "$0" /sys/fs/cgroup && exec "$@"' \
		"$W/no-cgroups" "${RT[@]}")

	mkdir -p "$W/no-cgroups"
	"$@"
}

# As the engines' runtime: runc's texts and statuses, no branch by default.
sandlock_oci() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "${OCI[@]}" "$@"
}

# create NAME [OPTION]...: the payload keeps our output, so it gets a file.
create() {
	detached create -b "$B" "$@"
}

# run_detached NAME [OPTION]...
run_detached() {
	detached run -d -b "$B" "$@"
}

detached() {
	sandlock "$@" </dev/null >"$W/out" 2>"$W/err" 3>&- || {
		local ret=$?

		cat "$W/err" >&2
		return $ret
	}
}

# The same as the engines' runtime.
create_oci() {
	local RT=("${OCI[@]}")

	detached create -b "$B" "$@"
}

# create_running NAME [OPTION]...: created, started, and has said "up".
create_running() {
	create "$@" && sandlock start "$1"
}

begin() {
	build_helpers || return 1
	if [ "$RUNTIME" = sandlock ] && ! [ -x "$SANDLOCK" ]; then
		echo "'$SANDLOCK' is missing: run make first" >&2
		return 1
	fi
	W=$(mktemp -d /var/tmp/slt.XXXXXXXX)
	N=t${W##*.}
	export SANDLOCK_ROOT=$W/run SANDLOCK_STORE=$W/store
	export SANDLOCK_CACHE=$W/cache
	unset SANDLOCK_LOG NO_COLOR XDG_STATE_HOME XDG_RUNTIME_DIR NOTIFY_SOCKET
	unset LISTEN_FDS LISTEN_PID
	case $RUNTIME in
	sandlock)
		RT=("$SANDLOCK") OCI=("$(dirname "$SANDLOCK")/sandlock-oci") ;;
	*)
		RT=("$RUNTIME" --root "$SANDLOCK_ROOT") OCI=("${RT[@]}") ;;
	esac
	chmod 755 "$W"
	STARTED=()
	cd "$W" || return 1
	leaks_before=$(leaks)
}

# A root file system of busybox, made once a file and copied to $1.
make_rootfs() {
	local template=${BATS_FILE_TMPDIR:-$W}/rootfs

	[ -d "$template" ] || build_rootfs "$template"
	cp -a "$template" "$1"
}

build_rootfs() {
	local r=$1 applet

	mkdir -p "$r"/{bin,dev,etc,home,proc,root,sys,tmp,usr,var/log,data}
	chmod 1777 "$r/tmp"
	cp "$(command -v busybox)" "$r/bin/busybox"
	cp "$PROBE" "$SNAP" "$r/bin/"
	for applet in sh true false cat echo ls mkdir rm rmdir mv cp ln touch \
		chmod chown sleep kill id env grep sed head tail wc dd sync \
		mount umount mkfifo mknod readlink stat find hostname pwd test \
		printf sort uname ps setsid sha256sum tar \
		truncate dirname basename seq tr cut od nc ip date expr; do
		ln -s busybox "$r/bin/$applet"
	done
	printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n' \
		>"$r/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\n' >"$r/etc/group"
	echo one >"$r/data/a"
	echo two >"$r/data/b"
	# Old times, so that nothing looks new by chance.
	find "$r" -exec touch -h -d '2020-02-02 02:02:02.123456789' {} +
}

# default_spec DIR: config.json as the runtime writes it.
default_spec() {
	local log

	if ! log=$(cd "$1" && "${RT[@]}" spec ${ROOTLESS:+--rootless} 2>&1); then
		echo "$log" >&2
		return 1
	fi
}

# make_bundle [DIR]: a bundle that runs true; $B is it, $R its root.
make_bundle() {
	B=${1:-$W/bundle}
	R=$B/rootfs
	mkdir -p "$B"
	make_rootfs "$R"
	default_spec "$B" || return 1
	config '.process.terminal = false | .root.readonly = false
		| .process.args = ["true"]'
}

# config FILTER [JQ-OPTION]...: edits config.json of the bundle.
config() {
	local filter=$1

	shift
	jq "$filter" "$@" <"$B/config.json" >"$B/.config.new" &&
		mv "$B/.config.new" "$B/config.json"
}

# set_args WORD...: the program of the bundle.
set_args() {
	config '.process.args = $ARGS.positional' --args "$@"
}

# script TEXT: the bundle runs a shell with these commands.
script() {
	config '.process.args = ["sh", "-c", $t]' --arg t "$1"
}

annotate() {
	config '.annotations[$k] = $v' --arg k "$1" --arg v "$2"
}

drop_ns() {
	config '.linux.namespaces |= map(select(.type != $t))' --arg t "$1"
}

# snap [OPTION]... DIR: every object, one line each (helpers/snap.c).
snap() {
	"$SNAP" "$@"
}

# What a sandbox sees of its root, without what other mounts cover.
OUTSIDE=(-x proc -x dev -x sys)

snap_root() {
	snap "${OUTSIDE[@]}" "${1:-$R}"
}

# same FILE FILE: both are equal; else the difference is shown.
same() {
	diff -u "$1" "$2" || {
		echo "'$1' and '$2' differ" >&2
		return 1
	}
}

# pid_of NAME: the first process of a sandbox.
pid_of() {
	sandlock state "$1" | jq -r .pid
}

status_of() {
	sandlock state "$1" | jq -r .status
}

branches_json() {
	sandlock branches --format json | jq 'if type == "array" then . else .branches end'
}

# field FILTER: of the test's own branch.
field() {
	branches_json | jq -r --arg n "$N" '.[] | select(.name == $n)'" | $1"
}

branch_state() {
	branches_json | jq -r --arg n "$1" '.[] | select(.name == $n) | .state'
}

# The directory of the test's own branch, wherever it is stored.
branch_dir() {
	dirname "$(field .upper)"
}

# eventually COMMAND...: within ten seconds.
eventually() {
	local i

	for ((i = 0; i < 200; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.05
	done
	echo "never came true: $*" >&2
	return 1
}

has_status() {
	[ "$(status_of "$1")" = "$2" ]
}

has_branch_state() {
	[ "$(branch_state "$1")" = "$2" ]
}

has_no_branch() {
	[ -z "$(branch_state "$1")" ]
}

is_empty() {
	[ -z "$(ls -A "$1" 2>/dev/null)" ]
}

is_gone() {
	! kill -0 "$1" 2>/dev/null || grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null
}

# A process that this test must not leave behind.
started() {
	STARTED+=("$1")
}

# ---------------------------------------------------------------- checks --

# Expectations on the last `run`; they show what came instead.
show_run() {
	echo "status $status, output:"
	echo "$output"
}

expect_status() {
	[ "$status" -eq "$1" ] || {
		echo "expected status $1" >&2
		show_run >&2
		return 1
	}
}

expect_output() {
	[[ $output == *"$1"* ]] || {
		echo "expected in the output: $1" >&2
		show_run >&2
		return 1
	}
}

expect_exactly() {
	[ "$output" = "$1" ] || {
		echo "expected exactly: $1" >&2
		show_run >&2
		return 1
	}
}

refute_output() {
	[[ $output != *"$1"* ]] || {
		echo "not expected in the output: $1" >&2
		show_run >&2
		return 1
	}
}

# No line of the output is exactly that.
refute_line() {
	grep -qxF -- "$1" <<<"$output" || return 0
	echo "not expected as a line of the output: $1" >&2
	show_run >&2
	return 1
}

expect_match() {
	[[ $output =~ $1 ]] || {
		echo "expected to match: $1" >&2
		show_run >&2
		return 1
	}
}

# The output is one error line, perhaps followed by one hint.
expect_one_error() {
	local n

	n=$(grep -c . <<<"$output")
	[ "$n" -ge 1 ] && [ "$n" -le 2 ] || {
		echo "expected one error line and at most a hint" >&2
		show_run >&2
		return 1
	}
}

# equal WHAT IS SHOULD
equal() {
	[ "$2" = "$3" ] || {
		printf '%s: is "%s", should be "%s"\n' "$1" "$2" "$3" >&2
		return 1
	}
}

# refused STATUS TEXT COMMAND...: it fails so, in one line, and leaves nothing.
refused() {
	local want=$1 text=$2 before after

	shift 2
	before=$(leaks)
	run "$@"
	expect_status "$want" || return 1
	[ -z "$text" ] || expect_output "$text" || return 1
	expect_one_error || return 1
	settle_leaks "$before" || return 1
}

skip_unless_root() {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
}

# Whether the kernel has all protections of Landlock (Linux 6.12), without which
# a command of tier C is refused.
has_tier_c() {
	[ "$("$PROBE" landlock)" -ge 6 ]
}

# The ways to keep a command in, for --isolation.
tiers() {
	echo namespaces
	! has_tier_c || echo notify
}

skip_unless_tier_c() {
	has_tier_c || skip "needs Landlock ABI 6 (Linux 6.12)"
}

only_sandlock() {
	[ "$RUNTIME" = sandlock ] || skip "sandlock's own behaviour"
}

# ----------------------------------------------------------------- leaks --

# What exists now that belongs to this test: mounts, cgroups, processes,
# runtime directories, branches.
leaks() {
	local tag=${W##*.}

	{
		grep -F -e "$tag" /proc/self/mountinfo |
			awk '{ print "mount", $5 }'
		find /sys/fs/cgroup -type d -name "*$tag*" \
			-printf 'cgroup %p\n'
		leaked_processes "$tag" | sed 's/^/process /'
		find "$W/run" -mindepth 1 -maxdepth 1 -printf 'runtime %f\n'
		find "$W/store" -mindepth 2 -maxdepth 2 -not -path '*/trash/*' \
			-not -path '*/cradles/*' -printf 'store %P\n'
		find /dev/shm -maxdepth 2 -name "*$tag*" -printf 'shm %p\n'
		find /var/tmp /var/lib/sandlock -maxdepth 3 \
			-path '*sandlock*' -name "*$tag*" -printf 'elsewhere %p\n'
	} 2>/dev/null || true
}

# Processes that mention the tag in their environment, arguments or cgroup, or
# whose root is a mount of ours; without those of bats itself.
leaked_processes() {
	local pid

	{
		grep -lsF -e "$1" /proc/[0-9]*/{environ,cmdline,cgroup}
		grep -lsE -e "^[^ ]+ [^ ]+ [^ ]+ [^ ]+ / .*$1|^[^ ]+ [^ ]+ [^ ]+ [^ ]*$1[^ ]* / " \
			/proc/[0-9]*/mountinfo
	} | cut -d/ -f3 | sort -un | while read -r pid; do
		case $(cat "/proc/$pid/comm" 2>/dev/null) in
		bats* | bash | "") continue ;;
		timeout | tee | cat | sed | grep | cut | sort | tr) continue ;;
		esac
		is_started "$pid" && continue
		is_corpse "$pid" && continue
		echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
	done
}

# A process that the test keeps on purpose.
is_started() {
	local p

	for p in "${STARTED[@]}"; do
		[ "$p" = "$1" ] && return 0
	done
	return 1
}

# What is dead and was left to the machine's pid 1, which may take seconds to
# reap it.
is_corpse() {
	grep -qs '^State:.Z' "/proc/$1/status" &&
		grep -qs '^PPid:.1$' "/proc/$1/status"
}

# Empty branches wait in the trash for a verb that looks at the store.
sweep_trash() {
	[ -d "$W/store/trash" ] || return 0
	sandlock branches >/dev/null 2>&1
	eventually is_empty "$W/store/trash" || {
		find "$W/store/trash" >&2
		return 1
	}
}

# settle_leaks BEFORE: within three seconds things are as they were, but for
# helpers of earlier commands that have ended meanwhile.
settle_leaks() {
	local i now

	for ((i = 0; i < 30; i++)); do
		now=$(leaks)
		comm -3 <(grep . <<<"$1" | sort) <(grep . <<<"$now" | sort) |
			grep -qv '^process' || return 0
		sleep 0.1
	done
	echo "left behind:" >&2
	diff <(echo "$1") <(echo "$now") >&2
	return 1
}

# ------------------------------------------------------------- tear-down --

finish() {
	local ret=0 name d p

	[ -n "$W" ] && [ -d "$W" ] || return 0
	cd /
	for p in "${STARTED[@]}"; do
		kill -KILL "$p" 2>/dev/null || true
		wait "$p" 2>/dev/null || true
	done
	STARTED=()
	for d in "$W"/run/*/; do
		[ -d "$d" ] || continue
		name=$(basename "$d")
		sandlock delete --force "$name" >/dev/null 2>&1 || true
	done
	if [ "$RUNTIME" = sandlock ]; then
		for d in "$W"/store/branches/*; do
			[ -e "$d" ] || [ -L "$d" ] || continue
			sandlock abort "$(basename "$d")" >/dev/null 2>&1 || true
		done
	fi
	sweep_trash || ret=1
	rm -rf "$W/run" "$W/store/branches" 2>/dev/null
	if ! settle_leaks "$leaks_before"; then
		ret=1
		kill_leaks
	fi
	grep -F -e "${W##*.}" /proc/self/mountinfo | awk '{ print $5 }' | tac |
		while read -r d; do umount -l "$d"; done
	chmod -R u+rwx "$W" 2>/dev/null
	rm -rf "$W" || ret=1
	return $ret
}

kill_leaks() {
	local pid

	leaked_processes "${W##*.}" | while read -r pid _; do
		kill -KILL "$pid" 2>/dev/null
	done
	sleep 0.2
	find /sys/fs/cgroup -depth -type d -path "*${W##*.}*" \
		-exec rmdir {} + 2>/dev/null
}
