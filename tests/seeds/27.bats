# SEEDS part 3, row 27: handlers park a call twice, with a deadline of 1 s for
# all of it: the call ends at 1 s, and the slot stays taken until the function
# returns.
load ../lib/common
load ../lib/embed

setup() {
	begin_embed
	mkdir "$W/outside"
	mkfifo "$W/line"
}

teardown() { finish; }

# Each of the two would be in time.
@test "row 27: one deadline for all handlers of a call" {
	local how

	cat >"$W/outside/took.py" <<-'END'
		import os, time
		start = time.monotonic()
		try:
		    os.uname()
		except OSError as e:
		    print("errno", e.errno)
		print("early" if time.monotonic() - start < 0.99 else "in time")
	END
	for how in sleep:700 later:700; do
		run timeout --foreground -k 5 "$COMMAND_TIMEOUT" \
			"$HELPERS/handle" timeout=1000 \
			filesystem.mount="/outside:$W/outside:ro" \
			uname="$how+continue" uname="$how+continue" -- \
			/usr/bin/python3 -B /outside/took.py
		expect_output "errno 5"
		expect_output "in time"
	done
}

n_called() {
	grep -c 'call uname in 0' "$W/said" || true
}

@test "row 27: what is over keeps its thread until it returns" {
	"$HELPERS/handle" name="$N" timeout=1000 threads=1 wait=100 \
		filesystem.mount="/outside:$W/outside:ro" \
		uname=print+sleep:500+continue uname=wait+continue -- \
		sh -c 'uname; uname; echo both
			until [ -e /outside/go ]; do sleep 0.05; done
			uname -s' <"$W/line" >"$W/said" 2>&1 3>&- &
	handler=$!
	started $handler
	exec 8>"$W/line"
	eventually grep -q both "$W/said"
	equal failed "$(grep -c 'Input/output error' "$W/said")" 2
	# The second one has not begun: the only thread is not free.
	equal called "$(n_called)" 1
	echo go >&8
	exec 8>&-
	eventually grep -q "^waited" "$W/said"
	touch "$W/outside/go"
	wait $handler
	cat "$W/said"
	grep -qx Linux "$W/said"
}
