# `sandlock run --workdir DIR --workdir DIR …`: one branch over several
# directories.
load lib/common

setup() {
	begin
	only_sandlock
	mkdir -p "$W/a/d" "$W/b/c" "$W/other"
	echo 1 >"$W/a/f"
	echo 2 >"$W/b/g"
	echo 3 >"$W/b/c/h"
	find "$W/a" "$W/b" -exec touch -h -d '2020-02-02 02:02:02.5' {} +
	cd "$W" || return 1
}

teardown() {
	cd / || return 1
	chattr -i "$SANDLOCK_STORE/branches" 2>/dev/null
	umount "$W/fs" "$W/a/m1" "$W/a/m2" 2>/dev/null
	finish
}

changes() {
	run --separate-stderr sandlock run --name "$N" --workdir a --workdir b \
		"$@" -- sh -c "pwd; echo x >>f; rmdir d; echo y >>$W/b/g
			rm $W/b/c/h; cat $W/b/g"
	expect_status 0
}

@test "workdirs: all are seen and written, the first is where it starts" {
	changes
	expect_exactly "$W/a
2
y"
	equal f "$(cat a/f)" 1
	equal g "$(cat b/g)" 2
	run sandlock diff "$N"
	expect_exactly "D $W/a/d/
D $W/b/c/h
M $W/a/f (+2 bytes)
M $W/b/g (+2 bytes)"
	run sandlock diff --format json "$N"
	equal roots "$(jq -c '[.changes[] | [.root, .path]] | sort' <<<"$output")" \
		"[[\"$W/a\",\"d\"],[\"$W/a\",\"f\"],[\"$W/b\",\"c/h\"],[\"$W/b\",\"g\"]]"
	run sandlock branches --format json
	equal lowers "$(jq -c '[.branches[0].roots[].lower]' <<<"$output")" \
		"[\"$W/a\",\"$W/b\"]"
	run sandlock commit "$N"
	expect_status 0
	expect_output 'committed 4 changes'
	equal f "$(tail -1 a/f)" x
	[ ! -e a/d ]
	equal g "$(tail -1 b/g)" y
	[ ! -e b/c/h ]
	equal branches "$(branches_json | jq length)" 0
	is_empty "$W/store/branches"
}

@test "workdirs: abort leaves all of them as they were" {
	snap a >"$W/a1"
	snap b >"$W/b1"
	changes
	run sandlock abort "$N"
	expect_status 0
	snap a >"$W/a2"
	snap b >"$W/b2"
	same "$W/a1" "$W/a2"
	same "$W/b1" "$W/b2"
	is_empty "$W/store/branches"
}

@test "workdirs: parts are selected by absolute paths, or relative to the first" {
	changes
	run sandlock diff "$N" "$W/b/c"
	expect_exactly "D $W/b/c/h"
	run sandlock commit "$N" "$W/b/g" f
	expect_status 0
	equal f "$(tail -1 a/f)" x
	equal g "$(tail -1 b/g)" y
	run sandlock abort "$N" "$W/a/d"
	expect_status 0
	run sandlock diff "$N"
	expect_exactly "D $W/b/c/h"
	run sandlock commit "$N"
	expect_status 0
	[ ! -e b/c/h ]
	[ -d a/d ]
	is_empty "$W/store/branches"
}

@test "workdirs: of parts one is not there, and nothing of any is done" {
	local part verb

	changes
	sandlock diff "$N" >"$W/before"
	for verb in commit abort; do
		for part in nonsense "$W/b/nonsense"; do
			run sandlock $verb "$N" f "$W/b/g" "$part"
			expect_status 1
			expect_output "branch '$N' did not change 'nonsense'"
			same "$W/before" <(sandlock diff "$N")
		done
	done
	equal f "$(cat a/f)" 1
	equal g "$(cat b/g)" 2
	sandlock abort "$N" "$W/b" "$W/b/g" "$W/b"
	run sandlock diff "$N"
	expect_exactly "D $W/a/d/
M $W/a/f (+2 bytes)"
}

@test "workdirs: a conflict in one publishes nothing of any" {
	changes
	echo host >>b/g
	snap a >"$W/a1"
	snap b >"$W/b1"
	run sandlock commit "$N"
	expect_status 3
	expect_output "C $W/b/g"
	snap a >"$W/a2"
	snap b >"$W/b2"
	same "$W/a1" "$W/a2"
	same "$W/b1" "$W/b2"
	run sandlock commit --skip-conflicts "$N"
	[ ! -e a/d ]
	equal g "$(tail -1 b/g)" host
	run sandlock commit --force "$N"
	expect_status 0
	equal g "$(tail -1 b/g)" y
}

@test "workdirs: one within another has its own changes" {
	run sandlock run --name "$N" --workdir b/c --workdir b -- \
		sh -c "pwd; echo x >>h; echo y >>../g; touch ../c/new"
	expect_output "$W/b/c"
	run sandlock diff "$N"
	expect_exactly "M $W/b/c/h (+2 bytes)
A $W/b/c/new
M $W/b/g (+2 bytes)"
	run sandlock commit "$N"
	expect_status 0
	[ -e b/c/new ]
}

@test "workdirs: the same one twice is one; without changes nothing is left" {
	run sandlock run --name "$N" --workdir a --workdir "$W/./a" --workdir b \
		-- true
	expect_exactly ""
	is_empty "$W/store/branches"
}

@test "workdirs: on different file systems" {
	skip_unless_root
	mkdir fs
	mount -t tmpfs tmpfs fs
	mkdir fs/t
	echo 4 >fs/t/i
	run sandlock run --name "$N" --workdir a --workdir fs/t -- \
		sh -c "echo x >>f; echo y >>$W/fs/t/i; ls -A $W/fs"
	expect_status 0
	refute_output .sandlock
	run sandlock commit "$N"
	expect_status 0
	equal f "$(tail -1 a/f)" x
	equal i "$(tail -1 fs/t/i)" y
	cd /
	rm -rf "$W/fs"/.sandlock-*
	umount "$W/fs"
}

@test "workdirs: on-exit=commit, profiles, exec and the control socket" {
	cat >p.toml <<-END
		[config]
		workdir = ["$W/a", "$W/b"]
		[program]
		exec = "/bin/sh"
		args = ["-c", "echo x >>f; echo y >>$W/b/g"]
	END
	run sandlock run --on-exit=commit --profile-file p.toml
	expect_status 0
	equal f "$(tail -1 a/f)" x
	equal g "$(tail -1 b/g)" y
	sandlock run --name "$N" --workdir a --workdir b -- sleep 1000 \
		>/dev/null 2>&1 3>&- &
	started $!
	eventually sandlock exec "$N" sh -c "echo in >$W/b/in; echo in >$W/a/in"
	sandlock kill "$N"
	wait
	run sandlock diff "$N"
	expect_exactly "A $W/a/in
A $W/b/in"
	sandlock abort "$N"
}

@test "workdirs: / is its directories and the file systems in them" {
	skip_unless_root
	mkdir fs
	mount -t tmpfs tmpfs fs
	echo under >fs/hidden
	run sandlock run --name "$N" --workdir / -- sh -c "pwd; echo x >>$W/a/f
		rm -r $W/b/c; ls $W/store $W/fs; echo new >/opt/$N; ls -d /usr/bin /etc/passwd"
	expect_status 0
	expect_output $'/\n'
	expect_output /etc/passwd
	equal f "$(cat a/f)" 1
	[ ! -e "/opt/$N" ]
	run sandlock diff "$N"
	expect_output "D $W/b/c/"
	expect_output "M $W/a/f"
	expect_output "A /opt/$N"
	expect_output "# not covered: $W/fs"
	run sandlock branches
	expect_match '\(and [0-9]+ more\)'
	run sandlock commit "$N" "$W/a" "/opt/$N"
	expect_status 0
	equal f "$(tail -1 a/f)" x
	equal opt "$(cat "/opt/$N")" new
	rm "/opt/$N"
	run sandlock abort "$N"
	expect_status 0
	[ -d b/c ]
	umount fs
}

@test "workdirs: mounts in them are told of at the start, by diff and inspect" {
	skip_unless_root
	mkdir fs a/m1 a/m2
	mount -t tmpfs tmpfs a/m1
	run sandlock run --name "$N" --workdir a -- sh -c 'echo x >>f'
	expect_output 'a mount in the workdir is not covered: m1'
	run sandlock diff "$N"
	expect_output '# not covered: /m1'
	sandlock abort "$N"
	mount -t tmpfs tmpfs a/m2
	sandlock run --name "$N" --workdir a --workdir a/m2 -- \
		sh -c 'echo up; sleep 1000' >out 2>err 3>&- &
	started $!
	eventually grep up out
	equal warning "$(cat err)" \
		"sandlock: a mount in the workdir is not covered: $W/a/m1"
	run sandlock inspect "$N"
	equal uncovered "$(jq -c .uncovered <<<"$output")" "[\"$W/a/m1\"]"
	sandlock kill "$N"
	wait
	umount a/m1 a/m2
}

@test "workdirs: one directory by two names is refused" {
	mkdir "$W/one" "$W/two"
	mount --bind "$W/one" "$W/two"
	run sandlock run --workdir "$W/one" --workdir "$W/two" -- true
	umount "$W/two"
	expect_status 125
	expect_output "'$W/two' is the same directory as '$W/one'"
}

@test "workdirs: the last change of a nested one is discarded, and the branch goes" {
	mkdir -p "$W/n/m"
	echo 1 >"$W/n/m/f"
	run sandlock run --name "$N" --workdir "$W/n" --workdir "$W/n/m" -- \
		sh -c 'echo new >m/f'
	expect_status 0
	run sandlock abort "$N" "$W/n/m/f"
	expect_status 0
	run sandlock branches
	refute_output "$N"
}

@test "workdirs: an overlay that keeps a directory is told, with what can be done" {
	mkdir -p over/lower/p/d over/upper over/work fs
	echo 1 | tee over/lower/p/f >over/lower/p/d/g
	mount -t overlay overlay -o \
		"lowerdir=over/lower,upperdir=over/upper,workdir=over/work" fs
	sandlock run --name "$N" --workdir fs/p -- \
		sh -c 'echo 2 >f; rm -r d; echo 2 >new'
	run sandlock commit "$N"
	expect_status 1
	expect_output "cannot delete 'd': Invalid cross-device link"
	expect_output "commit all else by its PATH"
	equal taken_back "$(cat fs/p/f fs/p/d/g)" $'1\n1'
	[ ! -e fs/p/new ]
	cd fs/p || return 1
	sandlock commit "$N" f new
	equal committed "$(cat f new)" $'2\n2'
	cd "$W" || return 1
	SANDLOCK_STORE=$W/fs/store
	for storage in --storage="$W/fs/p" ""; do
		run sandlock run $storage --workdir fs/p -- sh -c 'echo >new'
		expect_status 125
		expect_output "is on an overlay file system"
		expect_output "hint: name a directory on a disk or volume with"
	done
}

still_there() {
	expect_output "all of '$N' is published, but it is still there: cannot"
	expect_output "'sandlock recover $N' removes it"
	equal published "$(cat "$W/a/f")" 5
}

@test "workdirs: what is published is called that where the branch cannot go" {
	for more in "" "--workdir=b"; do
		echo 4 >a/f
		sandlock run --name "$N" --workdir a $more -- sh -c 'echo 5 >f'
		chattr +i "$SANDLOCK_STORE/branches"
		for verb in commit recover abort; do
			run sandlock "$verb" "$N"
			expect_status 1
			still_there
		done
		chattr -i "$SANDLOCK_STORE/branches"
		run sandlock recover "$N"
		expect_status 0
		equal left "$(ls "$SANDLOCK_STORE/branches")" ""
	done
}

@test "workdirs: a run that publishes tells that from a branch that waits" {
	echo 4 >a/f
	mkfifo go
	status=0
	sandlock run --name "$N" --workdir a --on-exit=commit -- \
		sh -c 'echo 5 >f; read -r x' <go 2>said &
	exec 9>go
	eventually test -s "$SANDLOCK_STORE/branches/$N/upper/f"
	chattr +i "$SANDLOCK_STORE/branches"
	echo >&9
	wait $! || status=$?
	expect_status 125
	output=$(cat said)
	still_there
	refute_output "wait as"
}

# One that is compared at the end of the run, and one that is too large for that.
@test "workdirs: what is in a tree deeper than PATH_MAX counts at the end, too" {
	local dirs='a=$(printf "%0200d" 0)
		for i in $(seq 120); do
			mkdir -p $a && cd -P $a && $0 || exit; done'
	mkdir "$W/deep"
	cd "$W/deep" || return 1
	for size in 1 17M; do
		sh -c "$dirs" true
		run --separate-stderr sandlock run --name "$N" -- \
			sh -c "truncate -s $size big; $dirs" "touch f"
		expect_status 0
		equal counted "${stderr%% wait*}" "sandlock: 121 changes"
		run sandlock commit "$N"
		expect_output "committed 121 changes of '$N'"
		rm -r ./*
	done
}

# The walk keeps a few dozen directories open on its way down.
@test "workdirs: what lies beside a new tree deeper than that is compared, too" {
	mkdir -p "$W/deep/b/a/a"
	cd "$W/deep" || return 1
	echo 0 | tee b/z >b/a/y
	sandlock run --name "$N" -- sh -c 'p=$(printf "a/%.0s" $(seq 90))
		mkdir -p b/$p; echo 1 >b/${p}new; echo 2 >b/z; rm b/a/y'
	run sandlock diff --name-status "$N"
	expect_output $'D\tb/a/y'
	expect_output $'M\tb/z'
	sandlock commit "$N"
	equal z "$(cat b/z)" 2
	[ ! -e b/a/y ]
}
