# Row 28: more questions than may be open at once.
load ../lib/common
load ../lib/asking

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

open_ids() {
	sandlock approvals --json "$N" 2>/dev/null |
		jq -r '.approvals[].approval.id'
}

are_open() {
	[ "$(open_ids | wc -l)" -eq "$1" ]
}

@test "28: past the limit they wait in order, and all are answered" {
	serve --ask-exec busybox -- sh -c 'for i in $(seq 70); do
			/bin/busybox echo "asked $i" & done
		echo others go on; wait; echo all'
	eventually are_open 64
	eventually grep -q 'others go on' "$W/out"
	while ! grep -qx all "$W/out"; do
		for id in $(open_ids); do
			sandlock approve "$N" "$id"
		done
	done
	served
	equal ran "$(grep -c '^asked' "$W/out")" 70
}

@test "28: the deadline of those that wait in order runs, too" {
	serve --ask-exec busybox --ask-timeout 6 -- sh -c '
		for i in $(seq 70); do /bin/busybox echo "asked $i" & done
		wait; echo all'
	eventually are_open 64
	eventually grep -qx all "$W/out"
	served || true
	equal refused "$(grep -o 'not permitted' "$W/err" | wc -l)" 70
	equal ran "$(grep -c '^asked' "$W/out")" 0
}

# What is refused by a rule waits for nobody, and is told at once.
@test "28: what is only observed arrives while the limit is reached" {
	serve --ask-exec busybox --net-allow 127.0.0.1:9 -- bash -c '
		for i in {1..70}; do /bin/busybox echo "asked $i" & done
		sleep 0.2
		(: >/dev/tcp/127.0.0.1/10)
		wait'
	eventually are_open 64
	is_told() { sandlock logs "$N" | grep -q "connect.*127.0.0.1:10"; }
	eventually is_told
	are_open 64
	equal ran "$(grep -c '^asked' "$W/out")" 0
	sandlock kill "$N"
	served || true
}
