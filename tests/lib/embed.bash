# What suites of the C API load, after lib/common.
#
# embed WORD...: the embedder (helpers/embed.c), on a branch over $D, as $N.
# `make unit-build` makes it.

begin_embed() {
	begin || return 1
	only_sandlock
	[ -x "$HELPERS/embed" ] || {
		echo "'$HELPERS/embed' is missing: make unit-build" >&2
		return 1
	}
	D=$W/dir
	mkdir "$D"
	echo old >"$D/f"
	echo gone >"$D/g"
	find "$D" -exec touch -h -d '2020-02-02 02:02:02.123456789' {} +
	snap "$D" >"$W/old"
	export SANDLOCK_PROGRAM=$SANDLOCK
}

embed() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/embed" \
		name="$N" config.workdir="$D" "$@"
}

# The directory is bit-identical to what it was.
unchanged() {
	snap "$D" >"$W/now"
	same "$W/old" "$W/now"
}

# One that is left alone: its pid is in $EMBEDDER, its output in $W/said.
embed_detached() {
	"$HELPERS/embed" name="$N" config.workdir="$D" "$@" \
		<&0 >"$W/said" 2>&1 3>&- &
	EMBEDDER=$!
	started "$EMBEDDER"
}

says() {
	grep -qF -e "$1" "$W/said"
}

policy() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/policy" "$@"
}

# Limits that a callback sets, once env is executed.
limits_hold() {
	cat >limits.py <<-'END'
		import os, signal, subprocess, sys
		def fork():
		    try:
		        pid = os.fork()
		    except OSError as e:
		        return e.strerror
		    if pid == 0:
		        signal.pause()
		    return "made"
		subprocess.run(["/usr/bin/env", "true"])
		if sys.argv[1] == "processes":
		    print([fork() for i in range(4)])
		else:
		    print(len(b"x" * (16 << 20)), flush=True)
		    print(len(b"x" * (400 << 20)))
	END
	ONLY=3 run policy max-processes env 0 -- \
		/usr/bin/python3 -c "$(cat limits.py)" processes
	expect_output 'limited 0'
	expect_output "['made', 'made', 'Resource temporarily unavailable', 'Resource temporarily unavailable']"
	ONLY=$((100 << 20)) run policy max-memory env 0 -- \
		/usr/bin/python3 -c "$(cat limits.py)" memory
	expect_output 'limited 0'
	expect_output 16777216
	refute_output 419430400
	ONLY=0 run policy max-memory env 0 -- sh -c '/usr/bin/env true; :'
	expect_output 'limited -22'
}
