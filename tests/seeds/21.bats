# SEEDS part 3, row 21: 200 starts against `ps` in a tight loop; a directory
# without pid file; a held lock: none lost; survives under 2 s, goes after;
# always survives.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
}

teardown() {
	[ -z "$loop" ] || kill -KILL $loop 2>/dev/null || true
	finish
}

@test "row 21: 200 starts while ps runs all the time, none is lost" {
	config '.linux.namespaces |= map(select(.type != "network"))'
	set_args sleep 1000
	(while :; do "$SANDLOCK" ps >/dev/null; done) 3>&- &
	loop=$!
	started $loop
	for i in $(seq 200); do
		create "$N-$i" --branch=none && sandlock start "$N-$i" ||
			echo "$i" >>"$W/lost"
		"$SANDLOCK" state "$N-$i" | grep -q '"running"' ||
			echo "$i" >>"$W/lost"
		sandlock delete --force "$N-$i" || echo "$i" >>"$W/lost"
	done
	kill $loop
	wait $loop 2>/dev/null || true
	loop=
	[ ! -e "$W/lost" ] || {
		cat "$W/lost" >&2
		return 1
	}
}

@test "row 21: a directory without pid file survives under 2 s and goes after" {
	mkdir -m 700 -p "$W/run"
	mkdir -m 700 "$W/run/$N"
	touch "$W/run/$N/lock"
	sandlock ps >/dev/null
	[ -d "$W/run/$N" ]
	sleep 2.5
	sandlock ps >/dev/null
	[ ! -e "$W/run/$N" ]
}

@test "row 21: a held lock always survives" {
	mkdir -m 700 -p "$W/run"
	mkdir -m 700 "$W/run/$N"
	touch "$W/run/$N/lock"
	flock -F "$W/run/$N/lock" sleep 1000 3>&- &
	started $!
	sleep 2.5
	sandlock ps >/dev/null
	sandlock list >/dev/null
	[ -d "$W/run/$N" ]
	kill $! 2>/dev/null || true
}

@test "row 21: a foreign directory with a live pid and no lock is not removed" {
	mkdir -m 700 -p "$W/run"
	mkdir -m 700 "$W/run/$N"
	echo $$ >"$W/run/$N/pid"
	echo $$ >>"$W/run/$N/pid"
	sleep 2.5
	sandlock ps >/dev/null
	[ -d "$W/run/$N" ]
	rm -r "${W:?}/run/$N"
}
