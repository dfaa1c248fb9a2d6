# Branches where no namespaces can be made: nothing is mounted, the supervisor
# answers (sandbox/cow.h). tests/unit/test_cow.c has the calls one by one.
load lib/common
load lib/running
load lib/tier_c

setup() {
	begin
	only_sandlock
	skip_unless_tier_c
	mkdir "$W/dir" "$W/dir/d"
	cd "$W/dir" || return 1
	echo one >one
	echo two >d/two
}

teardown() {
	cd "$W" || return 1
	finish
}

@test "tier C: what is written waits in a branch, and is committed" {
	local before
	before=$(sum)
	in_branch -- /bin/sh -c 'echo 2 >>one; rm d/two; mkdir n; echo x >n/x; ln -s x n/l
		mv n m; cat one; ls -R'
	expect_status 0
	expect_output $'one\n2\n'
	expect_output $'./m:\nl\nx'
	[ "$(sum)" = "$before" ]
	run sandlock diff "$N"
	expect_exactly $'D d/two\nA m/\nA m/l -> x\nA m/x\nM one (+2 bytes)'
	run sandlock commit "$N"
	expect_status 0
	[ "$(cat one)" = $'one\n2' ]
	[ "$(cat m/l)" = x ]
	[ ! -e d/two ]
}

@test "tier C: an abort leaves the directory as it was" {
	local before
	before=$(sum)
	in_branch --on-exit=abort -- /bin/sh -c 'rm -r d one; echo x >y; mkdir d; ls'
	expect_status 0
	expect_output $'d\ny'
	[ "$(sum)" = "$before" ]
	[ -z "$(sandlock branches --format json | jq -r '.[]?.name')" ]
}

@test "tier C: what the host removes meanwhile is a conflict, what the branch moves is none" {
	local job
	mkdir e f
	echo 3 | tee e/a f/b three >k
	mkfifo "$W/go"
	sandlock run --isolation=notify --name "$N" -- /bin/sh -c 'echo 2 >>d/two
		echo x >e/n; rm k; mv f/b f/c; echo 4 >>f/c; mv three e/three
		echo ready; read -r go' <>"$W/go" >"$W/out" &
	job=$!
	eventually grep -qs ready "$W/out"
	rm -r d/two e
	touch f/new
	echo >"$W/go"
	wait $job
	run sandlock diff "$N"
	expect_exactly $'D f/b\nD k\nD three\nC A d/two (removed on the host)\nC A e/ (removed on the host)\nA e/n\nA e/three\nA f/c'
	run sandlock abort "$N"
	expect_status 0
}

@test "tier C: links of somebody else's file move with their directory" {
	skip_unless_root
	mkdir e
	echo 1 >e/a
	ln e/a e/b
	chown 1000 e .
	in_branch --on-exit=commit -- setpriv --reuid 1000 --regid 1000 \
		--clear-groups /usr/bin/python3 -c 'import os; os.rename("e", "f")'
	expect_status 0
	equal links "$(stat -c '%h %u' f/a f/b)" $'2 0\n2 0'
	[ f/a -ef f/b ]
	[ ! -e e ]
}

@test "tier C: --on-exit=commit publishes" {
	in_branch --on-exit=commit -- /bin/sh -c 'mv d e; echo x >e/y'
	expect_status 0
	[ "$(cat e/two e/y)" = $'two\nx' ]
	[ ! -e d ]
}

@test "tier C: default ACLs, unlinked files, sockets and odd renames, as without" {
	skip_unless_root
	echo 'import os, errno, ctypes
def attempt(f):
    try: return f()
    except OSError as e: return errno.errorcode[e.errno]
def exchange_new(a, b):
    r = ctypes.CDLL(None, use_errno=True).renameat2(-100, a, -100, b, 3)
    return errno.errorcode[ctypes.get_errno()] if r else 0
os.umask(0o77)
acl = "02000000" "01000700ffffffff" "02000700e8030000" "04000500ffffffff" \
    "10000700ffffffff" "20000500ffffffff"
os.setxattr("d", "system.posix_acl_default", bytes.fromhex(acl))
os.unlink("d/two")
for name in ("d/two", "d/new"):
    os.mkdir(name, 0o777)
    print(oct(os.stat(name).st_mode), sorted(os.listxattr(name)))
    os.rmdir(name)
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o666))
    print(oct(os.stat(name).st_mode), sorted(os.listxattr(name)))
os.chmod("d", 0o2755)
os.unlink("d/two")
for mode in (0o777, 0o77):
    os.mkdir("d/two", mode)
    print(oct(os.stat("d/two").st_mode))
    os.rmdir("d/two")
fd = os.open("one", os.O_RDWR)
os.unlink("one")
print(attempt(lambda: os.fchmod(fd, 0o600)), attempt(lambda: os.setxattr(fd, "user.x", b"1")))
print(attempt(lambda: os.open("s", os.O_WRONLY)), exchange_new(b"none/x", b"none/y"))
print(sorted(os.listxattr("caps")))' >p.py
	/usr/bin/python3 -c 'import socket
socket.socket(socket.AF_UNIX).bind("s")
import os
open("caps", "w").close()
os.setxattr("caps", "trusted.t", b"1")
os.setxattr("caps", "security.capability", bytes([0,0,0,2,1]) + bytes(15))'
	cp -a . "$W/plain"
	in_branch -- /usr/bin/python3 -B p.py
	expect_status 0
	equal calls "$(head -n -1 <<<"$output")" "$(cd "$W/plain" && setpriv \
		--bounding-set=-sys_admin python3 p.py)"
	sandlock abort "$N"
	in_branch --on-exit=commit -- /bin/sh -c 'chmod 700 caps'
	expect_status 0
	equal trusted "$(getfattr --only-values -n trusted.t caps)" 1
}

@test "branches: calls that are seldom made come back as without one" {
	local how
	[ "$(uname -m)" = x86_64 ] || skip "the numbers are those of x86-64"
	mkdir -p "$W/odd/d/sub"
	cd "$W/odd" || return 1
	cp "$TESTS/helpers/odd_calls.py" .
	echo x | tee d/x d/sub/x >file
	ln -s d down
	ln -s /etc/passwd out
	ln -s ../nothing up
	cp -a . "$W/plain"
	(cd "$W/plain" && /usr/bin/python3 -B odd_calls.py >"$W/as-plain")
	[ "$(grep -c . "$W/as-plain")" -ge 140 ]
	for how in notify namespaces; do
		run "$SANDLOCK" run --isolation=$how --on-exit=abort -- \
			/usr/bin/python3 -B odd_calls.py
		expect_status 0
		grep -v '^sandlock: ' <<<"$output" >"$W/as-$how"
		same "$W/as-plain" "$W/as-$how"
	done
}

@test "tier C: the lower is written to by no way around" {
	local before
	before=$(sum)
	in_branch -- /usr/bin/python3 -B -c "
import os, ctypes, fcntl
libc = ctypes.CDLL(None, use_errno=True)
def attempt(fn):
    try:
        fn()
    except OSError:
        pass
lower = '$W/dir'
fd = os.open('one', os.O_RDONLY)
dirfd = os.open('d', os.O_RDONLY)
os.fchmod(fd, 0o777)
os.utime(fd, (1, 1))
attempt(lambda: os.setxattr(fd, 'user.x', b'1'))
attempt(lambda: os.chmod('/proc/self/fd/%d' % fd, 0o700))
attempt(lambda: os.fchmod(dirfd, 0o700))
attempt(lambda: os.open('/proc/self/fd/%d' % fd, os.O_RDWR))
attempt(lambda: os.open('two', os.O_RDWR | os.O_TRUNC, dir_fd=dirfd))
attempt(lambda: os.truncate('/proc/self/cwd/one', 0))
attempt(lambda: os.unlink('/proc/self/root' + lower + '/d/two'))
attempt(lambda: os.link('one', os.environ['TMPDIR'] + '/one'))
attempt(lambda: os.rename('d', os.environ['TMPDIR'] + '/d'))
attempt(lambda: print('version', fcntl.ioctl(fd, 0x40086604, bytes(8))))
print('end')"
	expect_status 0
	! grep -q version <<<"$output" || false
	expect_output end
	[ "$(sum)" = "$before" ]
}

@test "tier C: the lower is not changed by a descriptor that changes" {
	local before
	"${CC:-gcc}" -O1 -pthread -o "$W/dir/flipped" "$TESTS/helpers/flipped.c"
	echo victim >victim
	before=$(sum)
	in_branch -- ./flipped 4
	expect_status 0
	[ "$(sum)" = "$before" ]
	[ "$(stat -c %h victim)" = 1 ]
}

@test "tier C: a FIFO or device of the directory does not lead to the host" {
	mkfifo p
	ln -s . via
	[ "$(id -u)" != 0 ] || mknod dev c 1 5
	exec 7<>p
	echo host >&7
	in_branch -- /usr/bin/python3 -B -c "
import os
def look(fd):
    try: return os.read(fd, 10)
    except OSError as e: return e.strerror
    finally: os.close(fd)
print('bare', look(os.open('p', os.O_PATH)))
os.symlink('.', 'new')
print('linked', look(os.open('new/p', os.O_PATH)))
fd = os.open('p', os.O_RDONLY | os.O_NONBLOCK)
print('read', os.read(fd, 10))
os.close(fd)
try: os.open('p', os.O_WRONLY | os.O_NONBLOCK)
except OSError as e: print(e.strerror)
for name in 'dev', 'via/dev':
    try: print('opened', os.read(os.open(name, os.O_RDONLY), 1))
    except OSError as e: print(name, e.strerror)"
	exec 7>&-
	expect_output 'bare Bad file descriptor'
	refute_output host
	expect_output "read b''"
	expect_output 'No such device or address'
	refute_output opened
	[ "$(id -u)" != 0 ] || expect_output $'\ndev Permission denied\nvia/dev Permission denied'
}

@test "tier C: a directory is opened and entered as the branch has its mode" {
	mkdir x r
	in_branch -- /bin/sh -c 'mkdir d/new; chmod 300 d; ls d; cd d && echo entered
		cd ..; chmod 600 x; (cd x); chmod 500 r; ls r && cd r && echo both'
	if [ "$(id -u)" = 0 ]; then
		expect_output $'new\ntwo\nentered\n'
	else
		expect_output "'d': Permission denied"
		expect_output entered
		expect_output "can't cd to x"
		expect_output both
		refute_output two
	fi
}

@test "tier C: who has changed its ids sees and changes the same branch" {
	skip_unless_root
	echo old | tee d/old >d/mine
	mkdir -p his/sub
	echo his | tee his/a his/b >his/sub/x
	cp his/a one
	chown -R 1000 d/mine his one
	chmod 755 . d
	in_branch --on-exit=abort -- /usr/bin/python3 -u -B -c "
import os, shutil
def attempt(name, fn):
    try: print(name, fn())
    except OSError as e: print(name, e.strerror)
shutil.copy('d/mine', 'mine'); os.chown('mine', 1000, 1000)
shutil.rmtree('d'); os.mkdir('d'); open('d/new', 'w').write('n'); os.chmod('d', 0o711)
os.setgroups([]); os.setgid(1000); os.setuid(1000)
attempt('new', lambda: open('d/new').read())
attempt('size', lambda: os.stat('d/new').st_size)
attempt('old', lambda: open('d/old').read())
attempt('list', lambda: os.listdir('d'))
attempt('make', lambda: open('d/made', 'w'))
attempt('mine', lambda: open('mine', 'w').write('xy'))
attempt('mode', lambda: os.chmod('d/new', 0o777))
attempt('run', lambda: os.system('echo ran'))
attempt('his', lambda: [open('one', 'a').write('x'), os.unlink('his/a'),
    open('his/a', 'w').write('n'), os.unlink('his/a'), os.chmod('his/b', 0o600),
    os.rename('his/b', 'his/c'), os.mkdir('his/b'), os.rename('his/sub', 'his/sub2'),
    os.unlink('his/sub2/x'), os.rmdir('his/sub2'), sorted(os.listdir('his'))][-1])"
	expect_status 0
	expect_output "$(printf '%s\n' 'new n' 'size 1' 'old No such file or directory' \
		'list Permission denied' 'make Permission denied' 'mine 2' \
		'mode Operation not permitted' ran 'run 0' "his ['b', 'c']")"
}

@test "tier C: who has changed its ids executes and enters what the branch made" {
	local closed
	skip_unless_root
	chmod 755 .
	cat >enter.py <<-'END'
		import os, signal
		os.setgroups([]); os.setgid(1000); os.setuid(1000)
		signal.signal(signal.SIGALRM, lambda *a: None)
		signal.siginterrupt(signal.SIGALRM, False)
		signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
		top = os.getcwd()
		for i in range(60):
		    os.chdir('new/in')
		    assert os.getcwd() == top + '/new/in'
		    os.chdir(top)
		signal.setitimer(signal.ITIMER_REAL, 0, 0)
		os.chdir('new')
		print(os.path.realpath('in'), len(os.listdir('/proc/self/fd')))
		print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
		try:
		    os.chdir('../his')
		except OSError as e:
		    print(e.strerror)
	END
	# What can be entered, but not read, leads to what can, or is led to by it.
	for closed in '' . new; do
		in_branch --on-exit=abort -- /bin/sh -c '
			mkdir -p new/in his && cp /bin/echo new/e && cp /bin/sh new/sh
			printf "#!/bin/sh\necho \$0 \$1\n" >new/s; cp new/s new/deaf
			printf "#!%s\necho by \$0\n" "$PWD/new/sh" >new/by
			cp new/e new/in/e; chmod 755 new/s new/by; chmod 700 his
			chmod 755 . new; for i in '$closed'; do chmod 711 $i; done
			/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups /bin/sh -c "
				new/e ran; new/s a; new/by; new/deaf; his/no
				cd new && pwd && ./e here && cd in && ./e deep && cd .. && pwd
				cd ../his"
			/usr/bin/python3 -B enter.py'
		expect_status 0
		expect_output "$(printf '%s\n' ran 'new/s a' 'by new/by')"
		expect_output 'new/deaf: Permission denied'
		expect_output "$(printf '%s\n' "$PWD/new" here deep "$PWD/new")"
		expect_output "$PWD/new/in 4"$'\nset()\nPermission denied'
		refute_output 'no such file'
	done
}

@test "tier C: opens of FIFOs do as the kernel's" {
	local plain
	cp "$TESTS/helpers/fifo.py" .
	mkdir "$W/plain"
	plain=$(cd "$W/plain" && /usr/bin/python3 "$TESTS/helpers/fifo.py")
	in_branch --on-exit=abort -- /usr/bin/python3 -B fifo.py
	expect_status 0
	expect_output "$plain"
	[ "$(grep -c . <<<"$plain")" -ge 15 ]
}

@test "tier C: opens that wait for the other end of a FIFO stall nobody else" {
	in_branch --on-exit=abort -- /usr/bin/python3 -B -c '
import os, threading
os.mkfifo("p")
met = []
all = [threading.Thread(target=lambda: met.append(os.open("p", os.O_RDONLY)))
       for i in range(100)]
for t in all: t.start()
for i in range(20): os.close(os.open("new%d" % i, os.O_CREAT | os.O_WRONLY))
print("served")
fd = os.open("p", os.O_WRONLY)
while any(t.is_alive() for t in all):
    os.close(os.open("p", os.O_WRONLY))
print("met", len(met))'
	expect_status 0
	expect_output $'served\nmet 100'
}

@test "tier C: programs of the branch run, in directories of the branch" {
	in_branch -- /bin/sh -c 'mkdir b; cd b; cp /bin/echo e; ./e "$(pwd)"
		printf "#!/bin/sh\necho \$0 \$*\n" >s; chmod +x s; ./s 1 2; "$PWD/s" 3
		readlink /proc/self/cwd; sh -c "cd ..; b/s 4"'
	expect_status 0
	expect_output "$W/dir/b
./s 1 2
$W/dir/b/s 3
$W/dir/b
b/s 4"
}

@test "tier C: a new program is executed from a small stack in a heap" {
	"${CC:-gcc}" -O1 -o smallstack "$TESTS/helpers/smallstack.c"
	in_branch -- /bin/sh -c 'mkdir b; cp /bin/true b/t; printf "#!/bin/sh\nexit 0\n" >b/s
		chmod +x b/s; ./smallstack b/t; ./smallstack b/s 3000
		for i in $(seq 40); do ./smallstack b/t & done; wait'
	expect_status 0
	[ "$(grep -c '^status 0, changed 0$' <<<"$output")" = 42 ]
}

@test "tier C: a directory of both layers has one link, and a removed one no way to the store" {
	in_branch -- /bin/sh -c 'mkdir d/n d/m; stat -c %h d; mkdir k; cd k; rmdir ../k
		! /usr/bin/env -C .. /bin/pwd -P'
	expect_status 0
	expect_output $'1\n'
	! grep -q work <<<"$output" || false
}

@test "tier C: links of the branch lead out of it" {
	ln -s /etc/passwd was
	in_branch -- /bin/sh -c 'set -e; ln -s /etc/hostname l; cmp l /etc/hostname
		ln -sf /etc/hostname was; cmp was /etc/hostname
		ln -s "$TMPDIR" t; mkdir t/sub; echo x >t/sub/f; cat "$TMPDIR/sub/f"
		chmod 600 t/sub/f; stat -c %a t/sub/f; ln -s t/sub s; (cd s && pwd -P)
		rm s/f; rmdir s/; test ! -e "$TMPDIR/sub"
		mkdir b; ln -s /bin/echo b/e; b/e there; cd b; cmp ../../../../../../../../etc/passwd /etc/passwd
		printf "#!/bin/sh\necho script\n" >"$TMPDIR/s"; chmod +x "$TMPDIR/s"
		ln -s "$TMPDIR/s" s; cd ..; b/s'
	expect_status 0
	expect_output $'x\n600\n'
	expect_output $'there\nscript'
}

@test "tier C: many go to new directories and run new programs at once" {
	in_branch --on-exit=abort -- /bin/sh -c 'mkdir n; cp /bin/true n/t
		printf "#!/bin/sh\nexit 0\n" >n/s; chmod +x n/s
		f() { for i in $(seq 25); do (cd n && ./t && ../n/s && $PWD/s) || echo bad; done; echo end; }
		f & f & f & f & wait'
	expect_status 0
	[ "$(grep -c '^end$' <<<"$output")" = 4 ]
	! grep -q bad <<<"$output" || false
}

@test "tier C: several workdirs are one branch" {
	mkdir "$W/other"
	echo o >"$W/other/o"
	in_branch --workdir "$W/dir" --workdir "$W/other" -- \
		/bin/sh -c "mv one uno; echo p >>'$W/other/o'; ln '$W/other/o' ."
	expect_output 'Invalid cross-device link'
	run sandlock commit "$N"
	expect_status 0
	[ "$(cat "$W/other/o")" = $'o\np' ]
	[ "$(cat uno)" = one ]
}

@test "tier C: a full file system fails the call, and the lower stays" {
	[ "$(id -u)" -eq 0 ] || skip "mounting takes root"
	mkdir "$W/small"
	mount -t tmpfs -o size=256k none "$W/small"
	head -c 200K /dev/urandom >"$W/small/big"
	in_branch --workdir "$W/small" --storage "$W/small/store" -- \
		/bin/sh -c "cd '$W/small'; echo x >>big; ls" || true
	expect_output 'No space left on device'
	[ "$(stat -c %s "$W/small/big")" = 204800 ]
	run sandlock abort "$N"
	umount "$W/small"
}

@test "tier C: a branch works in a container, with what its filter leaves" {
	local drop=()
	[ "$(id -u)" -ne 0 ] || drop=(setpriv --bounding-set=-sys_admin --inh-caps=-all)
	run /usr/bin/python3 -B "$BATS_TEST_DIRNAME/helpers/contained.py" \
		"${drop[@]}" "$SANDLOCK" run --name "$N" -- \
		/bin/sh -c 'mkdir n; for i in $(seq 300); do echo >n/$i; echo >d/$i; done
		ls n d | sort | uniq | wc -l; rm -r n; cd d; mkdir m; cd m; cp /bin/echo e
		./e "$PWD"; exec 5<../two; chmod 600 /proc/self/fd/5; stat -c %a ../two'
	expect_status 0
	expect_output $'304\n'
	expect_output $'/dir/d/m\n600'
	run sandlock diff --name-status "$N"
	[ "$(grep -c '^A.d/[0-9]*$' <<<"$output")" = 300 ]
}

@test "tier C: directories that their owner may not write to are committed" {
	mkdir -p old/in tree/ro
	echo k >tree/ro/k
	chmod 555 old/in tree/ro
	in_branch -- /bin/sh -c 'mv tree d/moved; mkdir -p m/n; echo x >m/n/f; chmod 444 m/n/f; chmod 555 m/n m
		rmdir old/in; mkdir -m 511 old/in; mkdir old/in/sub 2>/dev/null; mv old/in old/out'
	expect_status 0
	run sandlock commit "$N"
	expect_status 0
	[ "$(stat -c %a m m/n m/n/f old/out | tr '\n' ' ')" = '555 555 444 511 ' ]
	[ ! -e old/in ]
	[ "$(stat -c %a d/moved/ro) $(cat d/moved/ro/k)" = '555 k' ]
	[ ! -e tree ]
	chmod -R u+w m old d/moved
}

@test "tier C: the names in / are seen, and nothing is made there" {
	in_branch -- /bin/sh -c 'ls /; mkdir /sandlock-test; cd /; ls -d home; ls home root
		python3 -c "
import os, fcntl
fd = os.open(\"/\", os.O_RDONLY)
for name, fn in ((\"chmod\", lambda: os.fchmod(fd, 0o755)),
        (\"utime\", lambda: os.utime(fd)), (\"at\", lambda: os.open(\"etc/shadow\", 0, dir_fd=fd)),
        (\"home\", lambda: os.open(\"home\", 0, dir_fd=fd)),
        (\"dot\", lambda: os.open(\"x\", os.O_CREAT | os.O_WRONLY, dir_fd=fd)),
        (\"xattr\", lambda: os.setxattr(fd, \"user.x\", b\"1\"))):
    try: print(name, \"done\", fn())
    except OSError as e: print(name, e.strerror)"'
	expect_output $'\netc\n'
	expect_output $'\nhome\n'
	expect_output "cannot create directory '/sandlock-test'"
	expect_output "'home': Permission denied"
	refute_output done
	[ ! -e /sandlock-test ]
}

# stage NUMBER SCRIPT
stage() {
	printf '[program]\nexec = "/bin/sh"\nargs = ["-c", "%s"]\n' "$2" >"$W/$1.toml"
}

# modes PATH...
modes() {
	find "$@" -maxdepth 0 -printf '%m '
}

@test "tier C: what modes keep its owner out of is committed, with these modes" {
	mkdir -p old/ro
	echo k >old/ro/k
	chmod 555 old/ro
	for where in "" "--storage=$(mktemp -d /dev/shm/slt.XXXXXX)"; do
		mkdir -p gone/ro
		echo k >gone/ro/k
		chmod 555 gone/ro
		in_branch $where -- /bin/sh -c 'umask 777; echo x >f; mkdir g; umask 22
			mkdir -p m/n; echo y >m/n/f; ln m/n/f m/l; chmod 0 m/n/f m/n m
			rm -f gone/ro/k 2>/dev/null; chmod 755 gone/ro; rm -r gone
			chmod 200 one; chmod 755 old/ro; echo c >old/ro/c; rm old/ro/k; chmod 555 old/ro
			chmod 311 d; chmod 111 old; chmod 300 .'
		expect_status 0
		run sandlock diff "$N"
		expect_status 0
		expect_output 'A m/n/f (link to m/l)'
		expect_output 'm old/ mode 0755->0111'
		run sandlock commit "$N"
		expect_status 0
		[ ! -e gone ]
		[ "$(modes . f g m one d old)" = '300 0 0 0 200 311 111 ' ]
		chmod u+rwx . m old d one
		[ "$(modes m/n m/l old/ro old/ro/c)" = '0 0 555 644 ' ]
		chmod u+rwx m/n m/n/f old/ro
		[ "$(modes m/n/f m/l)" = '700 700 ' ]
		[ "$(cat m/n/f m/l old/ro/c d/two one)" = $'y\ny\nc\ntwo\none' ]
		rm -r f g m
		echo k >old/ro/k
		chmod 555 old/ro
		chmod 755 . d old
		chmod 644 one
		[ -z "$where" ] || rm -r "${where#*=}"
	done
	chmod 755 old/ro
}

@test "tier C: an abort, and stages, of what modes keep its owner out of" {
	# Nor does it keep it from removing and moving a directory.
	in_branch -- /bin/sh -c 'mkdir m; echo x >m/f; chmod 0 m one
		mkdir -m 0 k l && rmdir k && mv l k && mkdir l && mv -T l k && rmdir k
		mkdir -m 0 k && rm -r d && mv k d && rmdir d && mkdir -m 300 d
		[ ! -e d/two ] && echo two >d/two && chmod 755 d'
	expect_status 0
	run sandlock diff "$N"
	expect_exactly $'T d/\nA m/\nA m/f\nm one mode 0644->0000'
	run sandlock abort "$N"
	expect_status 0
	[ "$(modes one)" = '644 ' ]
	mkfifo "$W/go" "$W/ready"
	"$SANDLOCK" run --isolation=notify --name "$N.k" -w "$W/go" -w "$W/ready" -- \
		/bin/sh -c 'mkdir m; chmod 0 m one; echo >"$1/ready"; read x <"$1/go"' - "$W" 3>&- &
	STARTED+=("$!")
	timeout 60 cat "$W/ready" >/dev/null
	run sandlock diff "$N.k"
	[ "$(id -u)" -eq 0 ] || expect_output 'its mode keeps you out, until the sandbox has ended'
	kill -KILL "${STARTED[-1]}"
	wait "${STARTED[-1]}" || :
	eventually sh -c '"$1" branches | grep -q interrupted' - "$SANDLOCK"
	run sandlock diff "$N.k"
	[ "$(id -u)" -eq 0 ] || expect_output "its mode keeps you out: 'sandlock recover $N.k' opens it"
	sandlock recover "$N.k"
	run sandlock diff "$N.k"
	expect_output 'A m/'
	sandlock abort "$N.k"
	[ "$(modes one)" = '644 ' ]
	stage 1 'mkdir m; echo x >m/f; chmod 0 m one'
	stage 2 'cat one; stat -c %a m one; chmod 700 m; cat m/f; chmod 500 m'
	in_branch --stage "$W/1.toml" --stage "$W/2.toml"
	expect_status 0
	expect_output $'0\n0\nx'
	[ "$(id -u)" -eq 0 ] || expect_output 'one: Permission denied'
	[ "$(modes m m/f one)" = '500 644 0 ' ]
	chmod u+rwx m one
}

@test "tier C: what is written through within a workdir waits in the branch, and a line says so" {
	in_branch -w "$W/dir/d" -w . -- /bin/sh -c 'echo x >d/new; cat d/new'
	expect_status 0
	expect_output "-w $W/dir/d lies in a workdir: what is written there waits in the branch, too"
	expect_output "-w . lies in a workdir"
	[ ! -e d/new ]
	run sandlock diff "$N"
	expect_exactly 'A d/new'
}

@test "tier C: TMPDIR is in no workdir" {
	TMPDIR=$W/dir/d in_branch -- /bin/sh -c 'echo x >"$TMPDIR/x"; echo "$TMPDIR"'
	refute_output "$W/dir"
	run sandlock diff "$N"
	[ "$status" -ne 0 ]
}

@test "tier C: --workdir / takes all of the machine's directories" {
	[ "$(id -u)" -eq 0 ] || skip "only root can work in '/'"
	local before
	before=$(sha256sum /etc/hostname /etc/passwd; ls /opt /usr/local)
	in_branch --workdir / --cwd "$W/dir" -- /bin/sh -c '
		echo x >>/etc/hostname; mkdir -p /opt/sandlock-test; cp /bin/echo /opt/sandlock-test/e
		/opt/sandlock-test/e ran; cd /opt/sandlock-test; ./e "$PWD"; rm /usr/bin/yes
		ls /usr/bin/yes; cat /etc/shadow; ls "$1"; echo x >/dev/null; cp /etc/hostname "$2"' \
		- "$SANDLOCK_STORE" "$W/dir"
	expect_status 0
	expect_output $'ran\n/opt/sandlock-test'
	expect_output "cannot access '/usr/bin/yes'"
	expect_output '/etc/shadow: Permission denied'
	expect_output "'$SANDLOCK_STORE': Permission denied"
	[ "$before" = "$(sha256sum /etc/hostname /etc/passwd; ls /opt /usr/local)" ]
	[ -e /usr/bin/yes ]
	run sandlock diff "$N"
	expect_output 'D /usr/bin/yes'
	expect_output 'M /etc/hostname (+2 bytes)'
	expect_output 'A /opt/sandlock-test/e'
	expect_output "A $W/dir/hostname"
	run sandlock abort "$N"
	expect_status 0
}

@test "tier C: stages share a branch, and publish all or nothing" {
	local before
	before=$(sum)
	stage 1 'echo 1 >>one; rm d/two; mkdir n; cp /bin/echo n/e; mkdir k; echo x >k/x; chmod 700 .'
	stage 2 'cat one; ls d; n/e ran; cd n; pwd; cd ..; rm -r k; mkdir k; ln -s ../one k/l; cat k/l; exit 9'
	in_branch --stage "$W/1.toml" --stage "$W/2.toml"
	expect_status 9
	expect_output "one
1
ran
$W/dir/n
one
1"
	[ "$(sum)" = "$before" ]
	[ -z "$(sandlock branches --format json | jq -r '.[]?.name')" ]
	sed -i 's/; exit 9//' "$W/2.toml"
	in_branch --stage "$W/1.toml" --stage "$W/2.toml"
	expect_status 0
	[ "$(cat one)" = $'one\n1' ]
	[ ! -e d/two ]
	[ "$(ls -A k)" = l ]
	[ "$(n/e ran)" = ran ]
	[ "$(stat -c %a .)" = 700 ]
}

@test "tier C: a stage's command and cwd may be an earlier one's" {
	stage 1 "mkdir n; cp /bin/echo n/e; echo '#!/bin/sh' >s; echo 'n/e script \$1' >>s; chmod 755 s"
	printf '[program]\nexec = "./e"\nargs = ["ran"]\ncwd = "%s"\n' "$W/dir/n" >"$W/2.toml"
	printf '[program]\nexec = "./s"\nargs = ["too"]\n' >"$W/3.toml"
	in_branch --stage "$W/1.toml" --stage "$W/2.toml" --stage "$W/3.toml"
	expect_status 0
	expect_output $'ran\nscript too'
	# The command itself is not asked about, under its path in the branch neither.
	printf '[ask]\nby = "never"\nexec = ["*"]\n' >>"$W/2.toml"
	rm -r n s
	in_branch --stage "$W/1.toml" --stage "$W/2.toml"
	expect_status 0
	expect_output ran
}

@test "tier C: a workdir within another is a branch of its own, by every path" {
	mkdir -p "$W/n/p/sub/d"
	echo s >"$W/n/p/sub/f"
	cd "$W/n" || return 1
	in_branch --workdir "$W/n" --workdir "$W/n/p/sub" -- /bin/sh -c '
		cd p/sub; echo 2 >g; echo 3 >"$1/p/sub/h"; cat "$1/p/sub/g" h d/../../sub/g
		cd "$1"; ln -s p/sub l; cat l/h; rm p/sub/f; mv p q; rmdir p/sub
		ls p/sub; cd p/sub/..; pwd' - "$W/n"
	expect_output $'2\n3\n2\n3\n'
	expect_output "cannot move 'p' to 'q': Device or resource busy"
	expect_output $'g\nh\n'"$W/n/p"
	sandlock commit "$N"
	[ "$(cat p/sub/g p/sub/h l/g)" = $'2\n3\n2' ]
	[ ! -e p/sub/f ]
}

@test "tier C: what a branch cannot have here is refused" {
	in_branch -w "$W" -- true
	expect_status 125
	expect_output 'one lies in the other'
	in_branch --no-supervisor -- true
	expect_status 125
}

@test "tier C: a working directory with a path of any length, beside the branch" {
	in_branch --on-exit=abort -- /usr/bin/python3 -B -c '
import os
os.chdir(os.environ["TMPDIR"])
for i in range(30):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("file", "w").write("deep")
print(open("file").read(), os.stat("file").st_size, os.listdir("."))'
	expect_status 0
	expect_output "deep 4 ['file']"
}

@test "tier C: a working directory is no descriptor" {
	cat >fds.py <<-'END'
		import ctypes, os, sys
		libc = ctypes.CDLL(None, use_errno=True)
		def call(name, nr, *args):
		    r = libc.syscall(nr, *args)
		    print(name, r, os.strerror(ctypes.get_errno()))
		os.chdir(sys.argv[1])
		call("fchmod", 91, -100, 0o700)
		call("fchown", 93, -100, os.getuid(), os.getgid())
		call("utimensat", 280, -100, None, None, 0)
		fd = os.open(".", os.O_RDONLY)
		call("linkat", 265, fd, b"", -100, b"link", 0x1000)
		print(oct(os.stat(".").st_mode))
	END
	chmod 755 d
	for where in d "\$TMPDIR"; do
		in_branch --on-exit=abort -- /bin/sh -c "/usr/bin/python3 -B fds.py $where"
		expect_output 'fchmod -1 Bad file descriptor'
		expect_output 'fchown -1 Bad file descriptor'
		expect_output 'utimensat -1 Bad address'
		[ "$where" != d ] || [ "$(id -u)" != 0 ] ||
			expect_output 'linkat -1 Operation not permitted'
	done
}

@test "tier C: attributes that the branch keeps for itself are not seen by any way" {
	mkdir d/s
	in_branch -- /usr/bin/python3 -B -c '
import os
os.rename("d", "e")
fd = os.open("e/s", os.O_RDONLY)
print(os.listxattr(fd), os.listxattr("/proc/self/fd/%d" % fd))
os.setxattr(fd, "user.overlay.opaque", b"mine")
print(os.listxattr(fd), os.getxattr(fd, "user.overlay.opaque"))
os.chdir("e")
print(os.listxattr("s"), os.getxattr("s", "user.overlay.opaque"))'
	expect_status 0
	expect_output "[] []
['user.overlay.opaque'] b'mine'
['user.overlay.opaque'] b'mine'"
	sandlock commit "$N"
	equal committed "$(getfattr --only-values -n user.overlay.opaque e/s)" mine
}

@test "tier C: in a directory that was removed there is nothing, whatever has its path now" {
	mkdir w
	in_branch -- /usr/bin/python3 -B -c '
import os
def attempt(fn):
    try:
        return fn()
    except OSError as e:
        return os.strerror(e.errno)
fd = os.open("d", os.O_RDONLY)
os.chdir("w")
for name in "d", "w":
    os.system("rm -r ../" + name)
    os.mkdir("../" + name)
print(attempt(lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=fd)))
print(attempt(lambda: os.mkdir("new")), attempt(lambda: os.unlink("two", dir_fd=fd)))
print(os.stat(".").st_mode & 0o777 == 0o755, attempt(lambda: os.listdir(fd)))
print(sorted(os.listdir("..")), os.listdir("../d"), os.stat("../one").st_size)'
	expect_status 0
	expect_output "No such file or directory
No such file or directory No such file or directory
True []
['d', 'one', 'w'] [] 4"
}

@test "tier C: links may lead on for longer than a path may be" {
	local i
	for i in 1 2 3; do
		ln -s "l$((i - 1))$(printf '/.%.0s' {1..1900})" l$i
	done
	ln -s . l0
	in_branch -- /bin/sh -c 'cat l3/one; ln -s x/y loop; ln -s loop/z x; cat x'
	expect_status 1
	expect_output one
	expect_output "Too many levels of symbolic links"
}

@test "tier C: a large directory is read once for each time that it is read" {
	mkdir many
	(cd many && seq 1 60000 | xargs touch)
	in_branch -- /usr/bin/python3 -B -c '
import os, subprocess
os.unlink("many/7")
open("many/new", "w").close()
for i in range(3):
    names = os.listdir("many")
    print(len(names), len(set(names)), "7" in names, "new" in names)
# Two that read at the same time, and one that removes what it reads.
one, other = os.scandir("many"), os.scandir("many")
print(sum(1 for pair in zip(one, other)))
subprocess.run(["rm", "-r", "many"], check=True)
print(os.path.exists("many"))'
	expect_status 0
	expect_output "60000 60000 False True
60000 60000 False True
60000 60000 False True
60000
False"
}
