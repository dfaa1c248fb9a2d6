# --max-memory where no controller limits it: ENOMEM for what a process may not
# have, and where all of them use too much, the largest dies.
load lib/common
load lib/running

setup() {
	begin
	only_sandlock
	WITH=
	# An ordinary user has no cgroup anyway, unless one was delegated.
	[ "$(id -u)" -ne 0 ] || WITH=without_cgroups
	mkdir "$W/dir"
	cd "$W/dir" || return 1
	cat >a.py <<-'END'
		import mmap, os, sys, time
		M = 1 << 20
		def alloc(n):
		    try:
		        return bytearray(n * M)
		    except MemoryError:
		        return None
	END
}

teardown() {
	cd "$W" || return 1
	finish
}

# limited SIZE TEXT: Python, with what a.py defines.
limited() {
	run $WITH sandlock run -m "$1" --on-exit=abort --on-error=abort -- \
		/usr/bin/python3 -B -c "from a import *
$2"
}

@test "memory: what does not fit is ENOMEM, and what was given back fits again" {
	limited 100M '
x = alloc(50); print(bool(x), alloc(80), alloc(300))
y = [alloc(1) for i in range(20)]; print(all(y))
for i in range(20):
    x = None
    x = alloc(60)
print(bool(x))'
	expect_status 0
	expect_exactly 'True None None
True
True'
}

@test "memory: the heap is refused as it should be, and goes on" {
	limited 64M '
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.sbrk.restype = ctypes.c_void_p
libc.sbrk.argtypes = [ctypes.c_long]
now = libc.sbrk(0)
print(libc.sbrk(200 * M) == 2**64 - 1, ctypes.get_errno(), libc.sbrk(0) == now)
print(libc.sbrk(M) == now, libc.sbrk(0) == now + M)'
	expect_status 0
	expect_exactly 'True 12 True
True True'
}

@test "memory: no file system of its own holds more than half of it" {
	limited 64M '
for at in "/run", "/tmp", "/var/tmp", "/dev/shm", os.environ["HOME"]:
    s = os.statvfs(at)
    print(at, s.f_blocks * s.f_frsize // M)'
	expect_status 0
	expect_exactly "/run 32
/tmp 32
/var/tmp 32
/dev/shm 32
$HOME 32"
}

@test "memory: what processes use together is limited: the largest dies" {
	limited 100M '
for n in 20, 40, 60:
    if os.fork() == 0:
        x = b"x" * (n * M)
        time.sleep(1000)
dead = [os.waitstatus_to_exitcode(os.wait()[1])]
os.write(1, b"%d\n" % dead[0])
time.sleep(1)
try:
    print(os.waitpid(-1, os.WNOHANG)[0])
finally:
    os.kill(-1, 9)'
	expect_output -9
	expect_output "out of memory: of '"
}

@test "memory: pages that processes share after a fork count once" {
	limited 200M '
x = b"x" * (100 * M)
kids = []
for i in range(5):
    kids.append(os.fork())
    if kids[-1] == 0:
        time.sleep(1.5)
        os._exit(7)
print([os.waitstatus_to_exitcode(os.waitpid(k, 0)[1]) for k in kids])'
	expect_status 0
	expect_exactly '[7, 7, 7, 7, 7]'
}

@test "memory: what is only reserved is not counted" {
	limited 64M '
x = mmap.mmap(-1, 4096 * M, prot=0, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
a = libc.mmap(None, 1000 * M, 0, 0x22, -1, 0)
print(a != 2**64 - 1, libc.mprotect(a, 200 * M, 3), ctypes.get_errno())
print(libc.mprotect(a, 8 * M, 3))'
	expect_status 0
	expect_exactly 'True -1 12
0'
}

@test "memory: shared memory is counted, what could not be is not there" {
	limited 64M '
import ctypes
libc = ctypes.CDLL(None)
print(libc.shmget(0, M, 0o600), libc.msgget(0, 0o600), libc.semget(0, 1, 0o600))
try:
    os.memfd_create("x")
except OSError as e:
    print(e.errno, flush=True)
m = mmap.mmap(-1, 200 * M)
for i in range(0, 200 * M, 4096):
    m[i] = 1
while True:
    time.sleep(1)'
	expect_status 137
	expect_output $'-1 -1 -1\n38'
	expect_output "out of memory: of '"
}

@test "memory: files in memory are limited, and count" {
	limited 64M '
def fill(path):
    try:
        with open(path, "wb", 0) as f:
            while True:
                f.write(b"x" * M)
    except OSError as e:
        return e.errno
print(fill("/dev/shm/x"), flush=True)
x = b"x" * (45 * M)
while True:
    time.sleep(1)'
	expect_status 137
	expect_output 28
	expect_output "out of memory: of '"
}

@test "memory: what a process uses whose first thread has ended is counted" {
	limited 64M '
import ctypes, threading
def use():
    while "State:\tZ" not in open("/proc/self/status").read():
        time.sleep(0.01)
    m = mmap.mmap(-1, 300 * M)
    for i in range(0, 300 * M, 4096):
        m[i] = 1
    time.sleep(60)
    os._exit(0)
pid = os.fork()
if pid == 0:
    threading.Thread(target=use).start()
    exit_thread = 60 if os.uname().machine == "x86_64" else 93
    ctypes.CDLL(None).syscall(exit_thread, 0)
print(os.waitpid(pid, 0)[1])'
	expect_output 9
}

@test "memory: the limit holds while calls wait for as many peers as can be" {
	black_hole
	ulimit -n 128
	run $WITH sandlock run -m 128M --on-exit=abort --on-error=abort \
		--net-allow "127.0.0.1:$port" -- /usr/bin/python3 -B -c "
from a import *
import errno, socket, threading
threading.stack_size(65536)
full = threading.Event()
def connect():
    s = socket.socket()
    if s.connect_ex(('127.0.0.1', $port)) == errno.EMFILE:
        full.set()
for i in range(120):
    threading.Thread(target=connect, daemon=True).start()
print('full', full.wait(60), flush=True)
m = mmap.mmap(-1, 300 * M)
for i in range(0, 300 * M, 4096):
    m[i] = 1
time.sleep(60)
print('used')
os._exit(0)"
	close_hole
	expect_output 'full True'
	[[ $output != *used* ]]
}

@test "memory: a build works under a limit" {
	for i in 1 2 3 4 5 6 7 8; do
		echo "#include <stdio.h>
int f$i(void) { return printf(\"$i\"); }" >f$i.c
	done
	run $WITH sandlock run -m 512M --on-exit=abort -- sh -c '
		for i in 1 2 3 4; do gcc -O2 -c -o /tmp/$i.o f$i.c & done; wait; ls /tmp/*.o | wc -l'
	expect_status 0
	expect_exactly 4
}

@test "memory: --no-supervisor is refused with such a limit" {
	refused 125 "--max-memory needs a supervisor here" \
		$WITH sandlock run --no-supervisor -m 64M -- true
}
