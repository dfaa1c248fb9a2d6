# What `sandlock diff` prints, in every format (DESIGN section 5, cow.md
# section 3).
load lib/common

setup() {
	begin
	only_sandlock
	make_bundle
}

teardown() { finish; }

change() {
	script "$1"
	sandlock run -b "$B" "$N" 2>/dev/null
}

all_kinds() {
	ln -s a "$R/data/l"
	mkdir "$R/data/gone" "$R/data/kind"
	echo 1 >"$R/data/gone/1"
	echo 2 >"$R/data/gone/2"
	touch -h -d '2020-01-01' "$R/data/l" "$R/data/gone/1" "$R/data/gone/2" \
		"$R/data/gone" "$R/data/kind" "$R/data"
	change 'echo more >>/data/a; chmod 600 /data/b; echo n >/data/new
		mkdir /data/dir; ln -sf b /data/l; rm -r /data/gone
		rmdir /data/kind; echo f >/data/kind; mkfifo /data/p'
}

@test "the short list has deletions and type changes first, then path order" {
	all_kinds
	run sandlock diff "$N"
	expect_status 0
	equal letters "$(cut -c1 <<<"$output" | tr -d '\n')" DTMmAMAA
	equal names "$(awk '{ print $2 }' <<<"$output" | tr '\n' ' ')" \
		"data/gone/ data/kind/ data/a data/b data/dir/ data/l data/new data/p "
}

@test "the short list says what changed" {
	all_kinds
	run sandlock diff "$N"
	expect_match 'M data/a \(\+5 bytes\)'
	expect_match 'm data/b .*0644->0600'
	expect_match 'M data/l -> b'
	expect_match 'T data/kind/? -> file'
	expect_match 'A data/p \(fifo\)'
}

@test "a deleted directory is one line, with --verbose its children, too" {
	all_kinds
	run sandlock diff "$N"
	refute_output data/gone/1
	run sandlock diff --verbose "$N"
	expect_output data/gone/1
	expect_output data/gone/2
}

@test "--name-status: letters and names" {
	all_kinds
	run sandlock diff --name-status "$N"
	expect_status 0
	expect_match $'(^|\n)D\tdata/gone/'
	expect_match $'(^|\n)M\tdata/a($|\n)'
}

@test "--name-status -z: nothing is quoted" {
	change 'printf x >"/data/new
line"; printf x >"/data/tab	x"; printf y >/data/$(printf "\377")'
	sandlock diff --name-status -z "$N" >"$W/out"
	equal records "$(tr -cd '\0' <"$W/out" | wc -c)" 6
	printf 'A\0data/new\nline\0A\0data/tab\tx\0A\0data/\377\0' >"$W/want"
	cmp "$W/out" "$W/want"
}

@test "names are quoted so that they cannot fake lines or drive a terminal" {
	change 'printf x >"/data/$(printf "esc\033[31m")"; printf x >"/data/new
D fake"; printf x >"/data/$(printf "bidi\342\200\256x")"; printf x >"/data/quote\"s"'
	sandlock diff "$N" >"$W/out"
	equal lines "$(wc -l <"$W/out")" 4
	! grep -q $'\033' "$W/out"
	! grep -q $'\342\200\256' "$W/out"
	! grep -q '^D' "$W/out"
}

@test "--stat: sums at the end" {
	all_kinds
	run sandlock diff --stat "$N"
	expect_match '8 changes'
	expect_match '\+[0-9]+ -[0-9]+ bytes'
}

@test "--patch: git apply makes the same tree" {
	command -v git >/dev/null || skip "git is not installed"
	printf '1\n2\n3\n4\n5\n' >"$R/data/lines"
	printf 'no newline' >"$R/data/nonl"
	touch -d '2020-01-01' "$R/data/lines" "$R/data/nonl"
	cp -a "$R/data" "$W/copy"
	change 'sed -i s/3/three/ /data/lines; echo end >>/data/nonl; rm /data/b
		echo new >/data/new; chmod 755 /data/a; ln -s a /data/link
		mkdir /data/sub; echo s >/data/sub/s; : >/data/empty
		printf "odd" >"/data/odd name"'
	sandlock diff --patch "$N" >"$W/patch"
	mkdir "$W/apply"
	mv "$W/copy" "$W/apply/data"
	(cd "$W/apply" && git init -q . && git apply --whitespace=nowarn "$W/patch")
	sandlock commit "$N"
	(cd "$W/apply/data" && find . -printf '%p %y %l %M\n' | sort) >"$W/a"
	(cd "$R/data" && find . -printf '%p %y %l %M\n' | sort) >"$W/b"
	same "$W/a" "$W/b"
	diff -r --no-dereference "$W/apply/data" "$R/data"
}

@test "--patch: binary files are named, not printed" {
	change 'dd if=/dev/urandom of=/data/bin bs=1k count=4 2>/dev/null; printf "\0\1" >>/data/a'
	run sandlock diff --patch "$N"
	expect_match 'Binary files .*data/bin.* differ'
	expect_match 'Binary files .*data/a.* differ'
}

@test "--format json: what it was and what it is" {
	all_kinds
	sandlock diff --format json "$N" >"$W/out"
	jq -e --arg n "$N" '.name == $n and (.changes | length == 8)' "$W/out"
	jq -e '.changes[] | select(.path == "data/a") | .letter == "M"
		and .before.size == 4 and .after.size == 9
		and .before.kind == "file" and .after.mode == "0644"
		and .after.owner.uid == 0' "$W/out"
	jq -e '.changes[] | select(.path == "data/l") | .before.target == "a"
		and .after.target == "b"' "$W/out"
	jq -e '.changes[] | select(.path == "data/new") | .before == null' "$W/out"
	jq -e '.changes[] | select(.path == "data/gone") | .after == null
		and .letter == "D"' "$W/out"
	jq -e '[.changes[].path] | . == sort' "$W/out"
}

@test "--format json --digest: SHA-256 of both sides" {
	change 'echo more >>/data/a'
	before=$(sha256sum <"$R/data/a" | cut -d' ' -f1)
	run sandlock diff --format json --digest "$N"
	equal before "$(jq -r '.changes[0].before.sha256' <<<"$output")" "$before"
	equal after "$(jq -r '.changes[0].after.sha256' <<<"$output")" \
		"$(printf 'one\nmore\n' | sha256sum | cut -d' ' -f1)"
}

@test "--format json: names that are not UTF-8" {
	change 'printf x >/data/$(printf "\377\376")'
	sandlock diff --format json "$N" >"$W/out"
	jq -e '.changes | length == 1' "$W/out"
}

@test "without a name: the only pending branch, for commit, too" {
	run sandlock diff
	expect_status 2
	expect_output "no branch is pending"
	change 'echo x >/data/new'
	run sandlock diff
	expect_status 0
	equal list "$output" "A data/new"
	sandlock run -b "$B" "$N-b" 2>/dev/null
	for verb in diff commit; do
		run sandlock $verb
		expect_status 2
		expect_output "2 branches are pending"
		expect_output "hint: "
	done
	sandlock abort "$N-b"
	run sandlock commit
	expect_status 0
	equal file "$(cat "$R/data/new")" x
}

@test "--exit-code: 1 with changes, 0 without, 2 for an error" {
	change 'echo x >/data/x'
	run sandlock diff --exit-code "$N"
	expect_status 1
	run sandlock diff --exit-code "$N" etc
	expect_status 0
	run sandlock diff --exit-code "$N-nope"
	expect_status 2
}

@test "paths: only what is below them" {
	change 'mkdir /data/p; echo 1 >/data/p/1; echo 2 >/data/pp; echo 3 >/home/3'
	run sandlock diff "$N" data/p
	expect_exactly $'A data/p/\nA data/p/1'
	run sandlock diff "$N" /home
	expect_exactly "A home/3"
}

@test "opened for writing without a change is no change" {
	change 'probe touch-open /data/a; : >>/data/b; echo x >/data/x'
	run sandlock diff "$N"
	expect_exactly "A data/x"
}

@test "written with the same bytes is no change, but its time with -v" {
	change 'cat /data/a >/tmp/a; cat /tmp/a >/data/a; rm /tmp/a; touch -d "2021-01-01 00:00:00" /data/b'
	run sandlock diff "$N"
	refute_output data/a
	refute_output data/b
	run sandlock diff --verbose "$N"
	expect_output data/b
}

@test "set-id bits and file capabilities are pointed out" {
	change 'echo x >/data/suid; chmod 4755 /data/suid'
	run sandlock diff "$N"
	expect_match 'A data/suid.*setuid'
}

@test "new hard links say what they are links to" {
	change 'echo x >/data/f1; ln /data/f1 /data/f2'
	run sandlock diff "$N"
	expect_output "(link to "
}

@test "conflicts are marked before anything is committed" {
	change 'echo mine >>/data/a'
	echo theirs >"$R/data/a"
	run sandlock diff "$N"
	expect_status 0
	expect_match 'C|changed'
	sandlock diff --format json "$N" | jq -e '.changes[0].conflict'
}

@test "mounts that the branch does not cover are named" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	mkdir "$R/data/mnt"
	mount -t tmpfs tmpfs "$R/data/mnt"
	change 'echo x >/data/x'
	run sandlock diff "$N"
	expect_match '# .*data/mnt'
	umount "$R/data/mnt"
}

@test "NO_COLOR and pipes: no escape sequences; --color=always has them" {
	change 'echo x >/data/x'
	run sandlock diff "$N"
	refute_output $'\033'
	run sandlock diff --color=always "$N"
	expect_output $'\033['
}

@test "a running sandbox can be looked at" {
	script 'echo x >/data/x; sleep 1000'
	create_running "$N"
	eventually sandlock exec "$N" cat /data/x
	run sandlock diff "$N"
	expect_output "A data/x"
}

@test "a reader that goes away is no failure that hangs" {
	change 'for i in $(seq 2000); do echo $i >/data/f$i; done'
	run bash -c "'$SANDLOCK' diff '$N' | head -1"
	expect_output "A data/f1"
}

@test "diff: the lock of a git that was killed is told, and not committed" {
	mkdir "$R/.git"
	script 'echo x >/.git/index.lock; echo y >/.git/HEAD'
	sandlock run -b "$B" "$N"
	run sandlock diff "$N"
	expect_output ".git/index.lock (lock of a dead git: left out)"
	equal flag "$(sandlock diff --format json "$N" |
		jq '[.. | objects | select(.stale_lock)] | length')" 1
	run sandlock commit "$N"
	expect_status 0
	expect_output "committed 1 change of '$N', left out 1"
	[ -e "$R/.git/HEAD" ]
	[ ! -e "$R/.git/index.lock" ]
}
