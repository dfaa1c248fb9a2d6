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
	serve --ask-exec env -- sh -c 'for i in $(seq 70); do
			/usr/bin/env echo "asked $i" & done
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
