# The table of cases of cow.md section 3, row by row. The oracle: what the
# program saw of its root just before it ended is, object for object (type,
# mode, owner, size, contents, target, attributes, times, links), what the
# directory is after the commit.
#
# Rows that are not here: 57 to 59 (git is exact as ordinary files), 67
# (case-insensitive directories are refused), 71 (nothing but ordinary
# entries).
load lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	config '.process.capabilities |= with_entries(.value = ["CAP_CHOWN",
		"CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_MKNOD",
		"CAP_SETFCAP", "CAP_SETGID", "CAP_SETUID"])
		| .process.capabilities.inheritable = []
		| .process.capabilities.ambient = []'
	D=$R/data
}

teardown() {
	if [ -n "$W" ]; then
		chattr -R -i -a "$R" 2>/dev/null || true
	fi
	finish
}

# Old objects, so that whatever is new can be told.
age() {
	find "$R" -newermt 2025-01-01 -execdir \
		touch -h -d '2020-02-02 02:02:02.123456789' {} +
}

# change TEXT: runs it; $W/merged is the view at the end, $W/diff the list.
change() {
	age
	script "{ $1
		} >&2
		snap -x proc -x dev -x sys /"
	sandlock run -b "$B" "$N" >"$W/merged" 2>"$W/note" || {
		cat "$W/merged" "$W/note" >&2
		return 1
	}
	sandlock diff "$N" >"$W/diff" || return 1
	echo "diff:" >&2
	head -40 "$W/diff" | cut -c1-200 >&2
}

# commit_exact [OPTION]...: the directory becomes what was seen.
commit_exact() {
	sandlock commit "$@" "$N" || return 1
	snap_root >"$W/after"
	same "$W/merged" "$W/after" || return 1
	equal branches "$(branches_json | jq length)" 0
}

# lists LINE...: exactly these lines, as patterns, in any order of letters.
lists() {
	local want

	equal "lines of diff" "$(grep -vc '^#' "$W/diff")" $# || return 1
	for want in "$@"; do
		grep -qE "^$want\$" "$W/diff" || {
			echo "diff does not say: $want" >&2
			return 1
		}
	done
}

exact() {
	local text=$1

	shift
	change "$text" && lists "$@" && commit_exact
}

@test "row 1: create a file" {
	exact 'echo x >/data/f; chmod 640 /data/f; chown 5:6 /data/f
		touch -d "2001-02-03 04:05:06" /data/f' 'A data/f'
	run getfattr -d -m - "$D/f"
	refute_output overlay
}

@test "row 2: create nested directories" {
	exact 'mkdir -p /data/a1/b1; echo x >/data/a1/b1/f; chmod 700 /data/a1/b1
		touch -d "2001-02-03 04:05:06" /data/a1/b1 /data/a1' \
		'A data/a1/' 'A data/a1/b1/' 'A data/a1/b1/f'
}

@test "row 3: create an empty directory" {
	exact 'mkdir -p /data/p/empty' 'A data/p/' 'A data/p/empty/'
}

@test "row 4: modify and append" {
	exact 'echo more >>/data/a; echo other >/data/b' \
		'M data/a.*' 'M data/b.*'
}

@test "row 5: truncate to zero and shorter" {
	printf '0123456789' >"$D/long"
	exact ': >/data/a; truncate -s 4 /data/long' \
		'M data/a.*' 'M data/long.*'
	equal content "$(cat "$D/long")" 0123
}

@test "row 6: opened for writing, unchanged: nothing, and nothing is done" {
	age
	ino=$(stat -c %i "$D/a")
	change 'probe touch-open /data/a; echo x >/data/f'
	lists 'A data/f'
	commit_exact
	equal inode "$(stat -c %i "$D/a")" "$ino"
}

@test "row 7: delete a file" {
	exact 'rm /data/a' 'D data/a'
	[ ! -e "$D/a" ]
}

@test "row 8: delete a tree" {
	mkdir -p "$D/d/e"
	echo 1 >"$D/d/1"
	echo 2 >"$D/d/e/2"
	exact 'rm -r /data/d' 'D data/d/'
}

@test "row 9: delete what is gone already" {
	change 'rm /data/a; echo x >/data/f'
	rm "$D/a"
	run sandlock diff "$N"
	expect_match 'D data/a.*already absent' ||
		refute_output 'D data/a'
	run sandlock commit "$N"
	expect_status 0
	[ ! -e "$D/a" ] && [ -e "$D/f" ]
}

@test "row 10: delete and make a directory again" {
	mkdir "$D/d"
	echo 1 >"$D/d/old"
	exact 'rm -r /data/d; mkdir /data/d; echo 2 >/data/d/new' \
		'T data/d/.*' 'A data/d/new'
	[ ! -e "$D/d/old" ]
}

@test "row 11: an opaque, then empty directory" {
	mkdir "$D/d"
	echo 1 >"$D/d/old"
	exact 'rm -r /data/d; mkdir /data/d' 'T data/d/.*'
	equal entries "$(ls -A "$D/d")" ""
}

@test "row 12: opaque where the lower has nothing" {
	exact 'mkdir /data/n1; probe rename /data/n1 /data/n2; echo x >/data/n2/f' \
		'A data/n2/' 'A data/n2/f'
}

@test "row 13: a file becomes a directory" {
	exact 'rm /data/a; mkdir /data/a; echo y >/data/a/y' \
		'T data/a.* -> dir' 'A data/a/y'
}

@test "row 14: a directory becomes a file" {
	mkdir "$D/d"
	echo 1 >"$D/d/1"
	exact 'rm -r /data/d; echo f >/data/d' 'T data/d/? -> file'
}

@test "row 15: a link to a directory becomes a directory" {
	mkdir "$D/target"
	echo keep >"$D/target/keep"
	ln -s target "$D/l"
	exact 'rm /data/l; mkdir /data/l; echo new >/data/l/new' \
		'T data/l.* -> dir' 'A data/l/new'
	equal target "$(ls "$D/target")" keep
}

@test "row 16: a directory becomes a link" {
	mkdir "$D/d"
	echo 1 >"$D/d/1"
	exact 'rm -r /data/d; ln -s /etc /data/d' 'T data/d/? -> symlink /etc'
	equal target "$(readlink "$D/d")" /etc
}

@test "row 17: a link's target and its times" {
	ln -s a "$D/l"
	ln -s a "$D/m"
	change 'ln -sfn b /data/l; touch -h -d "2001-02-03 04:05:06" /data/l
		probe utime /data/m 1000000000'
	grep -qE '^M data/l -> b' "$W/diff"
	commit_exact
}

@test "row 18: a write through a link changes the target only" {
	mkdir "$D/real"
	echo r >"$D/real/r"
	ln -s real/r "$D/l"
	exact 'echo more >>/data/l' 'M data/real/r.*'
	equal link "$(readlink "$D/l")" real/r
}

@test "row 19: rename a file" {
	exact 'mv /data/a /data/z' 'D data/a' 'A data/z.*'
}

@test "row 20: rename a directory, as the program can" {
	mkdir -p "$D/d/e"
	echo 1 >"$D/d/e/1"
	exact 'mv /data/d /data/n' 'D data/d/' 'A data/n/' 'A data/n/e/' \
		'A data/n/e/1'
}

@test "row 21: swap a file and a directory" {
	mkdir "$D/d"
	echo 1 >"$D/d/1"
	change 'mv /data/a /data/t; mv /data/d /data/a; mv /data/t /data/d'
	grep -qE '^T data/a' "$W/diff"
	grep -qE '^T data/d' "$W/diff"
	commit_exact
}

@test "row 22: two new names of one file" {
	exact 'echo x >/data/f; ln /data/f /data/g; mkdir /data/d; ln /data/f /data/d/h' \
		'A data/d/' 'A data/d/h.*' 'A data/f.*' 'A data/g.*'
	equal links "$(stat -c %h "$D/f")" 3
}

@test "row 23: one of two links of the lower is modified" {
	echo x >"$D/f"
	ln "$D/f" "$D/g"
	exact 'echo more >>/data/f' 'M data/f .*link broken.*'
	equal g "$(cat "$D/g")" x
	[ "$(stat -c %i "$D/f")" != "$(stat -c %i "$D/g")" ]
}

@test "row 24: a new link to a file of the lower" {
	change 'ln /data/a /data/g'
	grep -qE '^A data/g .*link to' "$W/diff" ||
		grep -qE '^A data/g' "$W/diff"
	commit_exact
	equal inode "$(stat -c %i "$D/a")" "$(stat -c %i "$D/g")"
}

@test "row 25: chmod of a file" {
	exact 'chmod 755 /data/a' 'm data/a .*0644->0755.*'
}

@test "row 26: mode, owner and attributes of a directory only" {
	mkdir "$D/d" "$D/e" "$D/x"
	exact 'chmod 700 /data/d; chown 7:8 /data/e; probe setxattr /data/x user.k v' \
		'm data/d/ .*' 'm data/e/ .*' 'm data/x/ .*'
}

@test "row 27: times of directories are those that were seen" {
	mkdir -p "$D/d/sub" "$D/t"
	echo 1 >"$D/d/sub/1"
	change 'echo 2 >/data/d/sub/2; touch -d "2001-02-03 04:05:06" /data/d
		touch -d "2003-02-03 04:05:06" /data/t'
	! grep -qE '^m data/d/$' "$W/diff"
	commit_exact
}

@test "row 28: times only" {
	change 'touch -d "2001-02-03 04:05:06" /data/a; echo x >/data/f'
	! grep -q data/a "$W/diff"
	run sandlock diff --verbose "$N"
	expect_match 'm data/a.* mtime'
	commit_exact
}

@test "row 29: attributes set and removed" {
	"$PROBE" setxattr "$D/a" user.old 1
	exact 'probe setxattr /data/b user.k v; probe removexattr /data/a user.old' \
		'm data/a .*user.old.*' 'm data/b .*user.k.*'
}

@test "row 29: access control lists" {
	command -v setfacl >/dev/null || skip "setfacl is not installed"
	setfacl -m u:1234:rw "$D/a"
	exact 'echo more >>/data/a; chmod 644 /data/b' 'M data/a.*'  ||
		return 1
	getfacl -np "$D/a" | grep -q 'user:1234:rw-'
}

@test "row 30: set-id bits and file capabilities are kept and pointed out" {
	exact 'chmod 4755 /data/a; cp /bin/busybox /data/s; chmod 2755 /data/s' \
		'm data/a .*setuid.*' 'A data/s.*setgid.*'
	equal mode "$(stat -c %a "$D/a")" 4755
}

@test "row 31: owner" {
	exact 'chown 1000:1001 /data/a' 'm data/a .*owner 0:0->1000:1001.*'
}

@test "row 32: a FIFO" {
	mkfifo "$D/old"
	exact 'mkfifo /data/p; rm /data/old' 'A data/p \(fifo\)' 'D data/old'
}

@test "row 33: a socket is skipped unless asked for" {
	change 'probe socket /data/s; echo x >/data/f'
	grep -qE '^A data/s.*socket' "$W/diff"
	run sandlock commit "$N"
	[ ! -e "$D/s" ]
	if branches_json | jq -e 'length == 1' >/dev/null; then
		sandlock commit --special "$N"
		[ -S "$D/s" ]
	fi
	[ -f "$D/f" ]
}

@test "row 33: a deleted socket is a deletion" {
	"$PROBE" socket "$D/s"
	exact 'rm /data/s' 'D data/s'
}

@test "row 34: a device node needs --special" {
	change 'mknod /data/n c 1 3; echo x >/data/f'
	grep -qE '^A data/n.*chr 1:3' "$W/diff"
	run sandlock commit "$N"
	[ ! -e "$D/n" ]
	sandlock commit --special "$N" || true
	equal device "$(stat -c '%t:%T' "$D/n")" 1:3
}

@test "row 35: a file of mode 000 is modified" {
	chmod 000 "$D/a"
	exact 'echo more >>/data/a' 'M data/a.*'
	equal mode "$(stat -c %a "$D/a")" 0
}

@test "row 36: a child in a directory of mode 0555" {
	mkdir -m 555 "$D/r"
	exact 'echo b >/data/r/b' 'A data/r/b'
	equal mode "$(stat -c %a "$D/r")" 555
}

@test "row 37: sticky and setgid directories" {
	mkdir "$D/s" "$D/g"
	chmod 1777 "$D/s"
	chown 0:55 "$D/g"
	chmod 2775 "$D/g"
	exact 'echo 1 >/data/s/1; echo 2 >/data/g/2; mkdir /data/g/sub' \
		'A data/s/1' 'A data/g/2' 'A data/g/sub/'
	equal group "$(stat -c %g "$D/g/2")" 55
}

@test "row 38: names as other tools use for whiteouts" {
	exact 'echo 1 >/data/.wh.foo; echo 2 >/data/.wh..wh..opq' \
		'A data/.wh.foo' 'A data/.wh..wh..opq'
}

@test "row 39: names with every byte" {
	change 'for n in "new
line" "tab	x" "-rf" "\$(id)" "quote\"s" "back\\slash" "sp ace" "é"; do
			printf x >"/data/$n"; done
		printf x >/data/$(printf "\001\033\177\200\377")'
	equal lines "$(grep -c '^A' "$W/diff")" 9
	commit_exact
}

@test "row 41: a tree deeper than PATH_MAX" {
	change 'probe deep /data 200'
	equal lines "$(grep -c '^A' "$W/diff")" 201
	commit_exact
	run sandlock branches
	expect_status 0
}

@test "row 41: deleting a tree deeper than PATH_MAX" {
	"$PROBE" deep "$D" 200
	change 'probe undeep /data 200'
	commit_exact
}

@test "row 42: a large file is moved, not read into memory" {
	age
	script 'probe sparse /data/huge 3000000000; echo ok'
	sandlock run -b "$B" "$N" >/dev/null 2>&1
	run bash -c "ulimit -v 400000; exec '$SANDLOCK' commit '$N'"
	expect_status 0
	equal size "$(stat -c %s "$D/huge")" 3000000004
	[ "$(stat -c %b "$D/huge")" -lt 100000 ]
}

@test "row 43: holes stay holes" {
	"$PROBE" sparse "$D/old" 50000000
	change 'probe sparse /data/new 50000000; printf more >>/data/old'
	commit_exact
	[ "$(stat -c %b "$D/new")" -lt 1000 ]
}

@test "row 44: a directory of 20,000 entries" {
	change 'mkdir /data/many; i=0; while [ $i -lt 20000 ]; do i=$((i + 1))
		: >/data/many/$i; done'
	equal lines "$(wc -l <"$W/diff")" 20001
	commit_exact
}

@test "row 45: the host has the file open and mapped: it keeps the old one" {
	age
	/usr/bin/python3 - "$D/a" "$W/go" "$W/result" 3>&- <<'PYTHON' &
import mmap, os, sys, time
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
open(sys.argv[2] + ".ready", "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
open(sys.argv[3], "wb").write(m[:] + f.read())
PYTHON
	reader=$!
	started $reader
	eventually test -e "$W/go.ready"
	change 'echo replaced >/data/a'
	commit_exact
	touch "$W/go"
	wait $reader
	equal seen "$(tr '\n' ' ' <"$W/result")" "one one "
}

@test "row 46: a bind mount of the file elsewhere keeps the old one" {
	skip_unless_root
	touch "$W/bind"
	mount --bind "$D/a" "$W/bind"
	change 'echo new >/data/a'
	commit_exact
	equal bind "$(cat "$W/bind")" one
	eventually umount "$W/bind"
}

@test "row 46: a file that is itself a mount point is a conflict" {
	skip_unless_root
	change 'echo new >/data/a; echo x >/data/f'
	echo other >"$W/other"
	mount --bind "$W/other" "$D/a"
	run sandlock commit "$N"
	expect_status 3
	[ ! -e "$D/f" ]
	equal other "$(cat "$W/other")" other
	eventually umount "$D/a"
	equal a "$(cat "$D/a")" one
	commit_exact
}

@test "row 47: a host process inside a merged directory stays in it" {
	mkdir "$D/d"
	(cd "$D/d" && exec sleep 1000 3>&-) &
	holder=$!
	started $holder
	exact 'echo 1 >/data/d/1; chmod 711 /data/d' 'm data/d/.*' 'A data/d/1'
	equal cwd "$(stat -L -c %i "/proc/$holder/cwd")" "$(stat -c %i "$D/d")"
}

@test "row 48: edited on both sides is a conflict" {
	change 'echo mine >/data/a'
	echo theirs >"$D/a"
	run sandlock commit "$N"
	expect_status 3
	expect_output data/a
	equal a "$(cat "$D/a")" theirs
}

@test "row 49: what only the host edited stays" {
	change 'echo mine >/data/a'
	echo theirs >"$D/b"
	sandlock commit "$N"
	equal b "$(cat "$D/b")" theirs
}

@test "row 50: deleting what the host edited is a conflict" {
	change 'rm /data/a'
	echo theirs >"$D/a"
	run sandlock commit "$N"
	expect_status 3
	equal a "$(cat "$D/a")" theirs
}

@test "row 51: deleting a directory that the host added to is a conflict" {
	mkdir "$D/d"
	echo 1 >"$D/d/1"
	change 'rm -r /data/d'
	echo h >"$D/d/h"
	run sandlock commit "$N"
	expect_status 3
	expect_output data/d
	equal entries "$(ls "$D/d" | tr '\n' ' ')" "1 h "
}

@test "row 51: ... and deep below it" {
	mkdir -p "$D/d/e/f"
	echo 1 >"$D/d/e/f/1"
	change 'rm -r /data/d'
	echo h >"$D/d/e/f/1"
	run sandlock commit "$N"
	expect_status 3
	equal content "$(cat "$D/d/e/f/1")" h
}

@test "row 51: an empty directory that the host put there is a conflict" {
	mkdir "$D/d"
	change 'rm /data/a; echo x >>/data/b; rmdir /data/d; echo x >/data/d'
	rm "$D/a" "$D/b"
	rmdir "$D/d"
	mkdir "$D/a" "$D/b" "$D/d"
	run sandlock commit "$N"
	expect_status 3
	for f in a b d; do
		expect_output "C data/$f/  "
		[ -d "$D/$f" ]
	done
	sandlock commit --force "$N"
	[ ! -e "$D/a" ] && [ -f "$D/b" ] && [ -f "$D/d" ]
}

@test "row 52: both added the same name" {
	change 'echo mine >/data/n; echo same >/data/s'
	echo theirs >"$D/n"
	echo same >"$D/s"
	run sandlock commit "$N"
	expect_status 3
	expect_output data/n
	refute_output data/s
	equal n "$(cat "$D/n")" theirs
}

@test "row 53: a parent that became a link is a conflict, nothing outside" {
	mkdir "$D/d" "$W/outside"
	change 'echo x >/data/d/f'
	rmdir "$D/d"
	ln -s "$W/outside" "$D/d"
	run sandlock commit "$N"
	expect_status 3
	equal outside "$(ls -A "$W/outside")" ""
	run sandlock commit --force "$N"
	equal outside "$(ls -A "$W/outside")" ""
}

@test "row 54: the root was moved and replaced" {
	change 'echo x >/data/f'
	mv "$R" "$R.moved"
	mkdir "$R"
	run sandlock commit "$N"
	[ "$status" -ne 0 ]
	equal entries "$(ls -A "$R")" ""
	rmdir "$R"
	mv "$R.moved" "$R"
	commit_exact
}

@test "row 55: a root given through a link is the directory itself" {
	mv "$R" "$B/real"
	ln -s real "$B/rootfs"
	config '.root.path = "real"'
	ln -s "$B" "$W/link"
	script 'echo x >/data/f'
	sandlock run -b "$W/link" "$N" 2>/dev/null
	equal lower "$(field .lower)" "$B/real"
	rm "$W/link"
	sandlock commit "$N"
	[ -f "$B/real/data/f" ]
}

@test "row 56: a mount below the root is not covered and never crossed" {
	skip_unless_root
	mkdir -p "$D/d/mnt"
	age
	script 'rm -r /data/d 2>/dev/null; echo x >/data/f'
	sandlock run -b "$B" "$N" 2>/dev/null
	mount -t tmpfs tmpfs "$D/d/mnt"
	echo precious >"$D/d/mnt/precious"
	run sandlock commit "$N"
	[ "$status" -ne 0 ]
	equal precious "$(cat "$D/d/mnt/precious")" precious
	[ ! -e "$D/f" ]
	eventually umount "$D/d/mnt"
}

@test "row 61: a tree that was replaced is one line, if that is asked for" {
	mkdir -p "$D/modules/a/b"
	echo old >"$D/modules/a/b/f"
	age
	change 'cd /data; rm -r modules; mkdir -p modules/x/.bin modules/y
		printf 12345 >modules/x/f; ln -s ../f modules/x/.bin/f; echo n >new
		mkdir empty; mkdir -p tree/b; echo t >tree/b/t; echo u >tree0'
	run sandlock diff --summary "$N"
	expect_exactly "T data/modules/ (5 in it, 5 bytes)
A data/empty/
A data/new
A data/tree/ (2 in it, 2 bytes)
A data/tree0"
	refused 2 "exclude each other" sandlock diff --summary --stat "$N"
	commit_exact
}

@test "row 60: a database that the host has open is a conflict" {
	command -v python3 >/dev/null || skip "python3 is not installed"
	(cd "$D" && python3 -c 'import sqlite3
for name in "j.db", "w.db":
    c = sqlite3.connect(name)
    if name == "w.db": c.execute("pragma journal_mode=wal")
    c.execute("create table t(x)"); c.commit(); c.close()')
	age
	script 'echo x >>/data/j.db; echo x >>/data/w.db; echo x >/data/f'
	sandlock run -b "$B" "$N" 2>/dev/null
	mkfifo "$W/hold"
	cd "$D"
	python3 -c 'import sqlite3, sys
held = [sqlite3.connect(n, isolation_level=None) for n in ("j.db", "w.db")]
held[0].execute("begin immediate")
held[1].execute("select * from t").fetchall()
print("open", flush=True)
sys.stdin.read()' <"$W/hold" >"$W/out" 3>&- &
	started $!
	exec 8>"$W/hold"
	cd /
	eventually grep open "$W/out"
	run sandlock diff "$N"
	expect_output 'C M data/j.db'
	expect_output 'open on the host'
	run sandlock commit "$N"
	expect_status 3
	expect_output 'C data/w.db'
	[ ! -e "$D/f" ]
	exec 8>&-
	wait
	rm -f "$D"/*-wal "$D"/*-shm
	run sandlock commit "$N"
	expect_status 0
	[ -e "$D/f" ]
}

@test "row 62: a payload that still writes is not committed" {
	script 'while :; do date +%s%N >/data/now; done'
	create_running "$N"
	eventually sandlock exec "$N" cat /data/now
	run sandlock commit "$N"
	expect_status 1
	[ ! -e "$D/now" ]
}

@test "row 63: a lower that became read-only: an error before anything" {
	skip_unless_root
	mkdir "$W/fs"
	mount -t tmpfs tmpfs "$W/fs"
	mkdir "$W/fs/bundle"
	cp -a "$B/." "$W/fs/bundle"
	B=$W/fs/bundle R=$B/rootfs D=$R/data
	script 'echo x >/data/f; rm /data/a'
	sandlock run --storage "$W/store2" -b "$B" "$N" 2>/dev/null
	snap_root >"$W/before"
	mount -o remount,ro "$W/fs"
	run sandlock commit "$N"
	expect_status 1
	expect_output "hint: nothing was published: mount the root writable"
	mount -o remount,rw "$W/fs"
	snap_root >"$W/now"
	same "$W/before" "$W/now"
	sandlock commit "$N"
	[ -f "$D/f" ] && [ ! -e "$D/a" ]
	eventually umount "$W/fs"
}

@test "row 63: no room for a staged commit: an error before anything" {
	skip_unless_root
	mkdir "$W/fs"
	mount -t tmpfs -o size=4m tmpfs "$W/fs"
	mkdir "$W/fs/bundle"
	cp -a "$B/config.json" "$W/fs/bundle/"
	mkdir -p "$W/fs/bundle/rootfs/"{bin,proc,dev,sys,data,tmp,etc}
	cp "$R/bin/busybox" "$W/fs/bundle/rootfs/bin/busybox"
	ln -s busybox "$W/fs/bundle/rootfs/bin/sh"
	echo one >"$W/fs/bundle/rootfs/data/a"
	B=$W/fs/bundle R=$B/rootfs D=$R/data
	script 'busybox dd if=/dev/zero of=/data/big bs=1024k count=8 2>/dev/null; echo x >/data/a'
	sandlock run --storage "$W/store2" -b "$B" "$N" 2>/dev/null
	snap_root >"$W/before"
	run sandlock commit "$N"
	expect_status 1
	expect_match "[Nn]o space|needs .* free|are missing"
	snap_root >"$W/now"
	same "$W/before" "$W/now"
	equal state "$(branch_state "$N")" pending
	eventually umount "$W/fs"
}

@test "row 64: links in a tree deeper than PATH_MAX are copied as such" {
	skip_unless_root
	mkdir "$W/fs"
	mount -t tmpfs tmpfs "$W/fs"
	mkdir "$W/fs/d"
	sandlock run --name "$N" --workdir "$W/fs/d" --storage "$W/store2" -- \
		python3 -c 'import os
for i in range(200):
    os.mkdir("a-directory-with-a-rather-long-name")
    os.chdir("a-directory-with-a-rather-long-name")
open("a", "w").close()
os.link("a", "b")'
	sandlock commit "$N"
	equal links "$(find "$W/fs/d" -type f -links 2 | wc -l)" 2
	rm -r "$W/fs/d"
	eventually umount "$W/fs"
}

@test "row 66: redirect and metacopy in the upper are refused" {
	skip_unless_root
	for x in redirect metacopy; do
		change 'mkdir /data/new; echo x >/data/new/f'
		"$PROBE" setxattr "$(field .upper)/data/new" trusted.overlay.$x y
		run sandlock commit "$N"
		expect_status 1
		expect_output $x
		[ ! -e "$D/new" ]
		sandlock abort "$N"
	done
}

@test "row 68: an immutable file of the lower is found before anything is done" {
	skip_unless_root
	change 'echo x >>/data/a; echo y >/data/f; rm /data/b'
	chattr +i "$D/b" 2>/dev/null || skip "no chattr here"
	run sandlock commit "$N"
	expect_status 3
	expect_output "commit with --skip-conflicts, or with --force after chattr -ia"
	[ ! -e "$D/f" ]
	equal a "$(cat "$D/a")" one
	run sandlock commit --force "$N"
	expect_status 3
	expect_output "or with --force after chattr -ia"
	chattr -i "$D/b"
	sandlock commit --force "$N"
	[ ! -e "$D/b" ]
}

@test "row 69: an empty branch" {
	age
	snap_root >"$W/before"
	script true
	run sandlock run -b "$B" "$N"
	expect_exactly ""
	equal branches "$(branches_json | jq length)" 0
	snap_root >"$W/now"
	same "$W/before" "$W/now"
}

@test "row 72: made and deleted inside" {
	change 'echo x >/data/f; mkdir /data/d; rm /data/f; rmdir /data/d; echo y >/data/g'
	lists 'A data/g'
	commit_exact
}

@test "overlay attributes of the payload are unescaped" {
	skip_unless_root
	config '.process.capabilities |= with_entries(.value += ["CAP_SYS_ADMIN"])
		| .process.capabilities.inheritable = [] | .process.capabilities.ambient = []'
	age
	script 'probe setxattr /data/a trusted.overlay.mine value'
	run sandlock run -b "$B" "$N"
	[[ $output != *EOPNOTSUPP* && $output != *EPERM* ]] || skip "not on this kernel"
	sandlock commit "$N"
	run getfattr --only-values -n trusted.overlay.mine "$D/a"
	expect_output value
}

@test "everything at once" {
	mkdir -p "$D/keep/x" "$D/drop/y" "$D/kind"
	for i in 1 2 3 4 5; do
		echo $i >"$D/keep/$i"
		echo $i >"$D/drop/$i"
	done
	ln "$D/keep/1" "$D/keep/1link"
	change 'rm -r /data/drop; mkdir /data/drop; echo n >/data/drop/n
		rmdir /data/kind; ln -s keep /data/kind; echo c >>/data/keep/1
		chmod 600 /data/keep/2; mv /data/keep/3 /data/keep/x/3
		ln /data/keep/4 /data/keep/x/4; chown 1:2 /data/keep; mkfifo /data/keep/fifo
		probe setxattr /data/keep/5 user.a b; rm /data/a; mkdir /data/a
		cp -a /bin/sh /data/a/; touch -d "1999-01-01 00:00:00" /data/keep/x /data/a; chmod 1770 /tmp'
	commit_exact
}
