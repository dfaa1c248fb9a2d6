# SEEDS part 3, row 40: CMD with a multi-byte character across the cut, a
# process name with `) R 1 (`: columns and UPTIME right; /dev/shm read-only or
# foreign: create refuses, a run of a command warns and works.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
}

teardown() { finish; }

@test "row 40: a multi-byte character across the cut" {
	for n in $(seq 40 64); do
		padding=$(printf 'x%.0s' $(seq "$n"))
		config '.process.args = ["sleep", "1000"] + [$a] | .process.args = ["sh", "-c", "sleep 1000; :", $a]' \
			--arg a "${padding}€€€€€€€€€€€€"
		create "$N-$n" --branch=none
		LC_ALL=C.UTF-8 run sandlock ps
		expect_status 0
		iconv -f UTF-8 -t UTF-8 <<<"$output" >/dev/null
		line=$(grep "$N-$n" <<<"$output")
		header=$(head -1 <<<"$output")
		before_cmd=${header%%CMD*}
		cmd=$(LC_ALL=C.UTF-8 bash -c 'echo "${1:$2}"' - \
			"$line" "${#before_cmd}")
		[ -n "$cmd" ]
		length=$(LC_ALL=C.UTF-8 bash -c 'echo ${#1}' - "$cmd")
		[ "$length" -le 60 ]
		sandlock ps --format json |
			jq -e --arg n "$N-$n" '.sandboxes[] | select(.name == $n) | .command | endswith("€€€€")'
		sandlock delete --force "$N-$n"
	done
}

@test "row 40: a process name with ') R 1 (' in it" {
	cp "$R/bin/busybox" "$R/bin/x) R 1 (y"
	mkdir "$R/own"
	cp "$R/bin/probe" "$R/own/a) R 1 (b"
	config '.process.args = ["/own/a) R 1 (b", "ignore"]'
	create_running "$N"
	eventually grep -q ready "$W/out"
	sleep 1.2
	run sandlock ps
	line=$(grep "$N" <<<"$output")
	equal pid "$(awk '{ print $2 }' <<<"$line")" "$(pid_of "$N")"
	equal status "$(awk '{ print $4 }' <<<"$line")" running
	up=$(awk '{ print $3 }' <<<"$line")
	[[ $up =~ ^[1-9]s$ ]] || {
		echo "UPTIME is '$up'" >&2
		return 1
	}
	sandlock ps --format json | jq -e '.sandboxes[0].uptime_s < 60'
}

@test "row 40: control characters in the command do not reach the terminal" {
	config '.process.args = ["sh", "-c", "sleep 1000; :", "\u001b[31mred\nNAME fake"]'
	create_running "$N"
	sandlock ps >"$W/ps"
	! grep -q $'\033' "$W/ps"
	equal lines "$(wc -l <"$W/ps")" 2
}

@test "row 40: a runtime directory on a read-only file system: create refuses" {
	skip_unless_root
	mkdir "$W/ro"
	mount -t tmpfs -o ro tmpfs "$W/ro"
	export SANDLOCK_ROOT=$W/ro/run
	run create "$N"
	expect_status 1
	expect_output "$W/ro/run"
	expect_output "--root"
	warns_and_works
	eventually umount "$W/ro"
}

@test "row 40: a runtime directory of somebody else: create refuses" {
	skip_unless_root
	mkdir -m 700 "$W/foreign"
	chown 4321 "$W/foreign"
	export SANDLOCK_ROOT=$W/foreign
	run create "$N"
	expect_status 1
	expect_output 4321
	expect_output "--root"
	warns_and_works
	equal entries "$(ls -A "$W/foreign")" ""
}

# Once, with what to do about it; the branch is made all the same.
warns_and_works() {
	mkdir "$W/work"
	cd "$W/work"
	run sandlock run --name "$N-h" -- sh -c 'echo x >f; echo fine; exit 7'
	expect_status 7
	expect_output fine
	expect_output "--root"
	equal warnings "$(grep -c -e '--root' <<<"$output")" 1
	sandlock --root "$W/run" commit "$N-h"
	equal f "$(cat f)" x
	cd /
}

@test "row 40: a command of the host: cut, columns, uptime" {
	mkdir "$W/work" "$W/bin"
	cp "$PROBE" "$W/bin/a) R 1 (b"
	cd "$W/work"
	local padding
	padding=$(printf 'x%.0s' $(seq 30))
	sandlock run --name "$N" --fs-read "$W/bin" --fs-read / -- \
		"$W/bin/a) R 1 (b" ignore "${padding}€€€€€€€€€€€€€€€€" \
		>"$W/out" 2>&1 3>&- &
	eventually grep -q ready "$W/out"
	LC_ALL=C.UTF-8 run sandlock ps
	iconv -f UTF-8 -t UTF-8 <<<"$output" >/dev/null
	line=$(grep "$N" <<<"$output")
	equal status "$(awk '{ print $4 }' <<<"$line")" running
	[[ $(awk '{ print $3 }' <<<"$line") =~ ^[0-9]+s$ ]]
	sandlock ps --json | jq -e --arg n "$N" '.sandboxes[]
		| select(.name == $n) | .command | endswith("€€€€")'
	sandlock kill "$N"
	wait
}
