# Tries to get at what is denied in a branch: denied.py DENIED ALLOWED, in the
# directory of both. Prints "leak" and how for each way that leads there.
import ctypes
import mmap
import os
import sys
import threading
import time

denied, allowed = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
SECRET = b'secret'
errors = {}


def attempt(name, fn):
    try:
        got = fn()
    except OSError as e:
        errors[name] = e.strerror
        return
    if isinstance(got, int):
        got = os.read(got, 100)
    if got is None or SECRET in got:
        print('leak', name, got)


def data(path, **how):
    return os.open(path, how.pop('flags', os.O_RDONLY), **how)


def openat2(path, resolve):
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, resolve)
    fd = libc.syscall(437, -100, path.encode(), how, 24)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def rename2(a, b, flags):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def call(nr, *args):
    if libc.syscall(nr, *args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return b''


here = os.getcwd()
top = os.path.dirname(denied)
attempt('path', lambda: data(denied))
attempt('absolute', lambda: data(here + '/' + denied))
attempt('dots', lambda: data(f'./{top}/..//{os.path.basename(top)}/./{os.path.basename(denied)}'))
attempt('cwd', lambda: data('/proc/self/cwd/' + denied))
attempt('root', lambda: data('/proc/thread-self/root' + here + '/' + denied))
attempt('dirfd', lambda: data(os.path.basename(denied), dir_fd=os.open(top, os.O_RDONLY)))
attempt('O_PATH dirfd', lambda: data(os.path.basename(denied), dir_fd=os.open(top, os.O_PATH)))
attempt('write', lambda: data(denied, flags=os.O_RDWR))
attempt('openat2', lambda: openat2(denied, 0))
attempt('openat2 beneath', lambda: openat2(denied, 8))
attempt('O_PATH', lambda: data(denied, flags=os.O_PATH))
os.symlink(denied, 'link')
attempt('link', lambda: data('link'))
os.symlink(top, 'toplink')
attempt('link above', lambda: data('toplink/' + os.path.basename(denied)))
attempt('hard link', lambda: os.link(denied, 'hard'))
attempt('hard link of link', lambda: (os.link('link', 'hard'), data('hard'))[1])
attempt('hard link followed', lambda: call(265, -100, b'link', -100, b'hard2', 0x400))
attempt('move', lambda: os.rename(denied, 'moved'))
attempt('move onto', lambda: os.rename(allowed, denied))
attempt('move above', lambda: os.rename(top, 'moved'))
attempt('exchange', lambda: rename2(allowed, denied, 2))
os.mkdir('empty')
attempt('exchange above', lambda: rename2('empty', top, 2))
attempt('remove', lambda: os.unlink(denied))
attempt('remove above', lambda: os.rmdir(top))
attempt('truncate', lambda: os.truncate(denied, 0))
attempt('chmod', lambda: os.chmod(denied, 0o777))
attempt('chown', lambda: os.chown(denied, os.getuid(), os.getgid()))
attempt('times', lambda: os.utime(denied, (1, 1)))
attempt('attribute', lambda: os.setxattr(denied, 'user.x', b'1'))
attempt('execute', lambda: os.execv(denied, [denied]))
attempt('access', lambda: b'' if not os.access(denied, os.R_OK) else None)
# name_to_handle_at, open_by_handle_at, io_uring_setup, open_tree, fsopen
handle = ctypes.create_string_buffer(b'\x80' + bytes(7 + 128))
attempt('handle', lambda: call(303, -100, denied.encode(), handle, ctypes.byref(ctypes.c_int()), 0))
attempt('uring', lambda: None if libc.syscall(425, 8, ctypes.create_string_buffer(200)) >= 0 else b'')
attempt('open_tree', lambda: None if libc.syscall(428, -100, denied.encode(), 1) >= 0 else b'')

# What is read by the kernel after it was judged here: the path changes.
page = mmap.mmap(-1, 4096)
buf = (ctypes.c_char * 4096).from_buffer(page)
names = [(here + '/' + n).encode() + b'\0' for n in (denied, allowed)]
stop = time.monotonic() + 2
pid = os.fork()
if pid == 0:
    while time.monotonic() < stop:
        for n in names:
            page[0:len(n)] = n
    os._exit(0)
paths = []
while time.monotonic() < stop:
    fd = libc.open(buf, os.O_RDONLY)
    if fd >= 0:
        if SECRET in os.read(fd, 100):
            print('leak race')
        os.close(fd)
    fd = libc.open(buf, os.O_PATH)
    if fd >= 0:
        paths.append(fd)
        attempt('fd', lambda: data('/proc/self/fd/%d' % fd))
        attempt('fd write', lambda: data('/proc/self/fd/%d' % fd, flags=os.O_RDWR))
        attempt('fd link', lambda: os.link('/proc/self/fd/%d' % fd, 'fdlink', follow_symlinks=True))
        attempt('fd link there', lambda: b'' if not os.path.exists('fdlink') else data('fdlink'))
        if os.path.lexists('fdlink'):
            os.unlink('fdlink')
        os.close(fd)
os.waitpid(pid, 0)

# A link that changes, and a directory that does.
done = []


def flip():
    os.mkdir('swap')
    open('swap/' + os.path.basename(denied), 'w').close()
    while not done:
        for to in (denied, allowed):
            os.symlink(to, 'flip.new')
            os.rename('flip.new', 'flip')
        os.symlink(top, 'above.new')
        os.rename('above.new', 'above')
        os.unlink('above')


thread = threading.Thread(target=flip)
thread.start()
stop = time.monotonic() + 2
while time.monotonic() < stop:
    attempt('flip', lambda: data('flip'))
    attempt('above', lambda: data('above/' + os.path.basename(denied)))
    attempt('flip copy', lambda: os.fchmod(os.open('flip', os.O_RDWR), 0o777) or b'')
done.append(1)
thread.join()
for name in ('path', 'dots', 'dirfd', 'openat2', 'O_PATH', 'link', 'hard link', 'move',
             'move above', 'exchange', 'exchange above', 'remove', 'truncate', 'chmod', 'execute'):
    print(name, errors.get(name, 'no error'))
