# Renaming directories of the lower in `run -- COMMAND`, where the kernel alone
# would say EXDEV.
load lib/common

setup() {
	skip_unless_root
	begin
	only_sandlock
	mkdir -p "$W/dir/d/e/deep" "$W/dir/other"
	cd "$W/dir" || return 1
	echo 1 >d/f
	echo 2 >d/e/g
	echo 3 >other/x
	ln -s f d/l
	ln d/f d/e/hard
	chmod 750 d/e
	find . -exec touch -h -d '2020-02-02 02:02:02.5' {} +
}

teardown() {
	cd / || return 1
	finish
}

inside() {
	run sandlock run --name "$N" -- /bin/sh -c "$1"
}

# One rename(2) and nothing else, as mv does not do it.
RENAME='import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def ren(a, b, flags=0):
    r = libc.renameat2(-100, a.encode(), -100, b.encode(), flags)
    return 0 if r == 0 else ctypes.get_errno()
import errno
'

py() {
	run sandlock run --name "$N" -- python3 -c "$RENAME$1"
}

@test "rename: what is moved is what was there, and commit leaves just that" {
	"$SNAP" d >"$W/before"
	cp "$SNAP" snap
	run --separate-stderr sandlock run --name "$N" -- sh -c "python3 -c '$RENAME
sys.exit(ren(\"d\", \"new\"))' && ./snap new"
	expect_status 0
	echo "$output" >"$W/seen"
	same "$W/before" "$W/seen"
	"$SNAP" "$W/dir/d" >"$W/still"
	same "$W/before" "$W/still"
	run sandlock diff "$N"
	expect_output "D d/"
	expect_output "A new/e/g"
	run sandlock commit "$N"
	expect_status 0
	[ ! -e d ]
	"$SNAP" new >"$W/after"
	same "$W/before" "$W/after"
}

@test "rename: git mv of a directory" {
	command -v git >/dev/null || skip "git is not installed"
	git init -q . && git add . &&
		git -c user.name=a -c user.email=a@b commit -qm x
	inside 'git mv d moved && git status --porcelain'
	expect_status 0
	expect_output 'R  d/f -> moved/f'
	refute_output '??'
	run sandlock commit "$N"
	expect_status 0
	equal status "$(git status --porcelain | sort | head -1)" \
		"R  d/e/g -> moved/e/g"
}

@test "rename: exchange of two directories, and of a file and a directory" {
	py 'a = ren("d", "other", 2)
b = ren("other/f", "other/e", 2)
print(a, b, os.path.isdir("other/f"), open("other/e").read().strip(), os.listdir("d"))'
	expect_status 0
	expect_output "0 0 True 1 ['x']"
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat d/x)" 3
	equal g "$(cat other/f/g)" 2
}

@test "rename: what the kernel refuses it refuses still, and nothing is copied" {
	mkdir empty
	py 'e = errno
fd = os.open("d", os.O_RDONLY)
print([e.errorcode[x] for x in (ren("d", "other", 3), ren("d", "none", 2),
    ren("d/e", "d", 2), ren("d/e", "d"))], os.listdir(fd) != [])
print([e.errorcode.get(x, x) for x in (
    ren("d", "other"), ren("d", "other", 1), ren("d", "d/e/x"),
    ren("d", "none/x"), ren("d", "other/x"), ren("none", "x"),
    ren("d", "/tmp/x"), ren("d/.", "x"), ren("d", "x", 8))])
print(ren("d", "empty"), ren("empty/e/", "up/"), os.listdir("up"))'
	expect_status 0
	expect_output "['EINVAL', 'ENOENT', 'EINVAL', 'ENOTEMPTY'] True"
	expect_output "['ENOTEMPTY', 'EEXIST', 'EINVAL', 'ENOENT', 'ENOTDIR', 'ENOENT', 'EXDEV', 'EBUSY', 'EINVAL']"
	expect_output "0 0 ["
}

@test "rename: what is moved inherits no default ACL" {
	py 'acl = "02000000" "01000700ffffffff" "02000700e8030000" "04000500ffffffff" \
    "10000700ffffffff" "20000500ffffffff"
os.setxattr("other", "system.posix_acl_default", bytes.fromhex(acl))
os.mkdir("other/made")
os.rename("d", "other/d")
os.rename("other/d/e", "other/e")
print([sorted(os.listxattr("other/" + x)) for x in ("made", "d", "e", "e/deep")])'
	expect_status 0
	expect_output "[['system.posix_acl_access', 'system.posix_acl_default'], [], [], []]"
}

@test "rename: by descriptors, absolute paths, links and dots" {
	ln -s "$W/dir" link
	ln -s . here
	mkdir -p a b c
	py 'fd = os.open("other", os.O_RDONLY | os.O_DIRECTORY)
os.rename("../d", "moved", src_dir_fd=fd, dst_dir_fd=fd)
print(ren("link/a", "here/a2"), ren(os.getcwd() + "/b", "./c/../b2/"), ren("here/../dir/c", "c2"))
print(sorted(os.listdir(".")), os.listdir("other"))'
	expect_status 0
	expect_output "0 0 0"
	expect_output "'a2', 'b2', 'c2'"
	expect_output "moved"
}

@test "rename: another user inside may no more than the kernel lets him" {
	chmod 755 "$W" "$W/dir"
	chmod 777 other
	mkdir -m 777 other/mine
	chown 12345 other/mine
	py 'os.setgid(12345); os.setuid(12345)
print(ren("d", "other/d"), ren("other/mine", "other/m2"), ren("d/e", "d/e2"))'
	expect_status 0
	expect_output "13 0 13"
	run sandlock diff "$N"
	refute_output "d/e"
}

@test "rename: what a deny covers does not come along" {
	run sandlock run --name "$N" --fs-deny "$W/dir/d/e" -- python3 -c "$RENAME
print(ren('d', 'x'), os.listdir('.'))"
	expect_status 0
	expect_output "18 "
	refute_output "'x'"
}

@test "rename: --no-supervisor leaves it to the kernel" {
	run sandlock run --no-supervisor -- python3 -c "$RENAME
print(ren('d', 'x'))"
	expect_status 0
	expect_output 18
}

@test "rename: many at once, within each other" {
	mkdir -p many/{1,2,3,4,5,6,7,8}/{a,b}/c
	inside 'for i in 1 2 3 4 5 6 7 8; do
		(mv -T many/$i/a many/$i/x && mv -T many/$i many/n$i) & done
		mv -T other o2; wait; find many | sort | tr "\n" " "; ls'
	expect_status 0
	expect_output "many/n8 many/n8/b many/n8/b/c many/n8/x many/n8/x/c"
	refute_output ".sandlock"
}
