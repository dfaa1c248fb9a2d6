# SEEDS part 3, row 24: 20 supervisors stopped with full backlogs: ps ends within
# the time of one, with "-"; inspect fails by itself.
load ../lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

ms_of() {
	local start

	start=$(date +%s%N)
	"$@" >"$W/said" 2>&1 || true
	echo $((($(date +%s%N) - start) / 1000000))
}

all_full() {
	[ "$(cat "$W"/full-* | wc -l)" -eq 20 ]
}

@test "row 24: 20 stopped supervisors with full backlogs" {
	local i pids=() fillers=() one twenty
	for i in $(seq 20); do
		mkdir "$i"
		sandlock run --name "$N-$i" --port-remap --workdir "$i" \
			-- sleep 1000 \
			>/dev/null 2>&1 3>&- &
	done
	for i in $(seq 20); do
		eventually test -S "$SANDLOCK_ROOT/$N-$i/control.sock"
		pids+=("$(sed -n 2p "$SANDLOCK_ROOT/$N-$i/pid")")
	done
	kill -STOP "${pids[@]}"
	# A process for each: one must not need more fds than are allowed.
	for i in $(seq 20); do
		python3 - "$SANDLOCK_ROOT/$N-$i/control.sock" >"$W/full-$i" 3>&- <<-'END' &
			import socket, sys, time
			held = []
			while True:
			    s = socket.socket(socket.AF_UNIX)
			    s.setblocking(False)
			    try:
			        s.connect(sys.argv[1])
			    except BlockingIOError:
			        break
			    held.append(s)
			print("full", flush=True)
			time.sleep(600)
		END
		fillers+=($!)
		started $!
	done
	eventually all_full
	one=$(ms_of sandlock inspect "$N-1")
	grep -q "did not answer within 2 s" "$W/said"
	twenty=$(ms_of sandlock ps)
	equal lines "$(grep -c "$N-" "$W/said")" 20
	equal dashes "$(grep "$N-" "$W/said" | awk '$5 == "-"' | wc -l)" 20
	echo "one: $one ms, twenty: $twenty ms" >&2
	# In parallel: twenty take as long as one, not twenty times.
	[ "$one" -ge 2000 ]
	[ "$twenty" -lt $((one * 5)) ]
	kill -CONT "${pids[@]}"
	kill "${fillers[@]}"
	for i in $(seq 20); do sandlock kill "$N-$i"; done
	wait
}

@test "row 24: a created bundle whose supervisor is stopped" {
	make_bundle
	set_args sleep 1000
	create_running "$N"
	supervisor=$(sed -n 2p "$SANDLOCK_ROOT/$N/pid")
	kill -STOP "$supervisor"
	one=$(ms_of sandlock inspect "$N")
	grep -q "did not answer within 2 s" "$W/said"
	[ "$one" -ge 2000 ]
	run sandlock ps
	expect_match "$N .*running"
	equal status "$(status_of "$N")" running
	kill -CONT "$supervisor"
	sandlock kill "$N"
}
