# SEEDS part 3, row 31: copy-up or directory rename with a full store; caller
# killed midway: the call fails, the lower is untouched even with -w; the
# branch is consistent.
load ../lib/common

setup() {
	skip_unless_root
	begin
	only_sandlock
	mkdir -p "$W/dir/big" "$W/small"
	cd "$W/dir" || return 1
	head -c 3000000 /dev/zero | tr '\0' a >big/a
	head -c 3000000 /dev/zero | tr '\0' b >big/b
	"$SNAP" "$W/dir" >"$W/before"
}

teardown() {
	cd / || return 1
	finish
	local r=$?

	umount "$W/small" 2>/dev/null
	return $r
}

CALLS='import errno, os, sys
def call(f, *a):
    try:
        f(*a)
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
'

@test "row 31: with a full store the calls fail, and the lower stays as it is" {
	mount -t tmpfs -o size=4m tmpfs "$W/small"
	run --separate-stderr sandlock run --name "$N" --storage "$W/small" \
		-w "$W/dir" -- python3 -c "$CALLS"'
print(call(os.rename, "big", "new"), call(os.truncate, "big/b", 2999999),
      sorted(os.listdir(".")), sorted(os.listdir("big")))
d = open("big/a").read() + open("big/b").read()
print(d == "a" * 3000000 + "b" * 3000000)'
	expect_status 0
	[[ ${lines[0]} == "ENOSPC "*"['big'] ['a', 'b']" ]] || { show_run; false; }
	equal data "${lines[1]}" True
	"$SNAP" "$W/dir" >"$W/after"
	same "$W/before" "$W/after"
	run sandlock abort "$N"
	cd /
	eventually umount "$W/small"
}

@test "row 31: the caller is killed midway, and the branch is consistent" {
	mkdir many
	for i in $(seq 300); do echo "$i" >"many/$i"; done
	"$SNAP" "$W/dir" >"$W/before"
	run --separate-stderr sandlock run --name "$N" -- python3 -c '
import os, signal, time
for n in range(12):
    p = os.fork()
    if p == 0:
        os.rename("many", "moved")
        os.rename("moved", "many")
        os._exit(0)
    time.sleep(0.002 * n)
    os.kill(p, signal.SIGKILL)
    os.waitpid(p, 0)
# What was begun for the dead is finished, and can be seen half done.
for i in range(300):
    names = [n for n in ("many", "moved") if os.path.isdir(n)]
    state = (len(names), len(os.listdir(names[0])) if names else 0)
    if state == (1, 300):
        break
    time.sleep(0.1)
print(*state)'
	expect_status 0
	equal inside "$output" "1 300"
	"$SNAP" "$W/dir" >"$W/after"
	same "$W/before" "$W/after"
	run sandlock commit "$N"
	[ -d many ] || mv moved many
	equal files "$(ls many | wc -l)" 300
	equal sum "$(cat many/* | sort -n | tail -1)" 300
	[ -z "$(ls -A | grep sandlock)" ]
}

@test "row 31: the sandbox is killed midway, and the branch is consistent" {
	mkdir many
	for i in $(seq 2000); do echo "$i" >"many/$i"; done
	for n in 1 2 3 4 5 6; do
		sandlock run --name "$N" -- sh -c 'touch begun
			exec python3 -c "import os; os.rename(\"many\", \"moved\")"' \
			>/dev/null 2>&1 3>&- &
		eventually sandlock state "$N"
		sleep "0.0$n"
		sandlock kill "$N" >/dev/null 2>&1 || true
		wait
		if sandlock commit "$N"; then
			[ -d many ] || mv moved many
			equal files "$(ls many | wc -l)" 2000
			equal sum "$(cat many/* | sort -n | tail -1)" 2000
		fi
		[ -z "$(ls -A | grep sandlock)" ]
		rm -f begun
	done
}
