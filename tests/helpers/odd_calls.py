"""Calls that are seldom made, in the current directory: what each came back
with. A branch, with an overlay or without, is to say what the directory says.

    d/x, d/sub/x, file, down -> d, out -> /etc/passwd, up -> ../nothing
"""
import ctypes
import errno
import os
import stat
import struct

libc = ctypes.CDLL(None, use_errno=True)
CWD, SYMLINK_NOFOLLOW, SYMLINK_FOLLOW, EMPTY = -100, 0x100, 0x400, 0x1000
NO_XDEV, NO_MAGIC, NO_LINKS, BENEATH, IN_ROOT = 1, 2, 4, 8, 16
LINKAT, FCHOWNAT, UTIMENSAT, EXECVEAT, STATX = 265, 260, 280, 322, 332
OPENAT2, FACCESSAT2, FCHMODAT2 = 437, 439, 452
HERE = os.getcwd()


def call(number, *args):
    r = libc.syscall(ctypes.c_long(number), *[
        ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), '')
    return r


def tell(name, fn):
    try:
        r = fn()
    except OSError as e:
        r = errno.errorcode[e.errno]
    print(name, r, flush=True)


def openat2(dirfd, path, flags=0, resolve=0, mode=0):
    how = struct.pack('QQQ', flags, mode, resolve)
    # Past '..' it is to be tried again where anybody has renamed or mounted.
    for _ in range(1000):
        try:
            fd = call(OPENAT2, dirfd, path, how, len(how))
            break
        except OSError as e:
            if e.errno != errno.EAGAIN:
                raise
    path = os.readlink('/proc/self/fd/%d' % fd)
    os.close(fd)
    return path.replace(HERE, '.')


def write(path, text, mode=0o755):
    with open(path, 'w') as f:
        f.write(text)
    os.chmod(path, mode)


def execute(path, *args, at=None, flags=0):
    """What it prints, or why it is not executed."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(w, 1)
        os.dup2(w, 2)
        try:
            if at is None:
                os.execve(path, [path, *args], {})
            argv = (ctypes.c_char_p * (len(args) + 2))(path, *args)
            call(EXECVEAT, at, path, argv, (ctypes.c_char_p * 1)(), flags)
            os.write(1, b'may be')
        except OSError as e:
            os.write(1, errno.errorcode[e.errno].encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return text.strip().replace(HERE, '.')


def flags_that_there_are_none():
    fd = os.open('new', os.O_RDWR | os.O_CREAT)
    room = ctypes.create_string_buffer(256)
    times = struct.pack('qqqq', 1, 1, 1, 1)
    for path in b'file', b'new':
        tell('linkat', lambda: call(LINKAT, CWD, path, CWD, b'l', 2))
        tell('fchownat', lambda: call(FCHOWNAT, CWD, path, -1, -1, 1))
        tell('fchmodat2', lambda: call(FCHMODAT2, CWD, path, 0o600, 1))
        tell('utimensat', lambda: call(UTIMENSAT, CWD, path, times, 1))
        tell('faccessat2', lambda: call(FACCESSAT2, CWD, path, 4, 1))
        tell('access', lambda: os.access(path, 8))
        tell('statx', lambda: call(STATX, CWD, path, 1, 1, room))
        tell('sync', lambda: call(STATX, CWD, path, 0x6000, 1, room))
        tell('mask', lambda: call(STATX, CWD, path, 0, 1 << 31, room))
        tell('openat2', lambda: openat2(CWD, path, flags=1 << 40))
        tell('mode', lambda: openat2(CWD, path, mode=0o600))
        tell('resolve', lambda: openat2(CWD, path, resolve=1 << 40))
        tell('both', lambda: openat2(CWD, path, resolve=BENEATH | IN_ROOT))
    os.close(fd)


def ways_that_stay(top):
    os.symlink('new', 'to')
    os.symlink('/d/in', 'd/in root')
    write('d/in', '')
    for path in (b'file', b'new', b'd/in', b'd/../new', b'to', b'down/in',
                 b'up', b'out', b'../x', b'/file', b'../../new', b'none',
                 b'/etc/passwd', b'd/in root', b'd/sub/../../../x'):
        for how in (NO_XDEV | BENEATH, NO_LINKS, BENEATH | NO_MAGIC, IN_ROOT):
            tell('%d %s' % (how, path), lambda: openat2(top, path, 0, how))
    below = os.open('d', os.O_PATH)
    for path in b'in', b'../new', b'sub/../in', b'sub/../../new', b'/in':
        tell('d %s' % path, lambda: openat2(below, path, 2, BENEATH))
        tell('in %s' % path, lambda: openat2(below, path, 2, IN_ROOT))
    tell('made', lambda: openat2(top, b'd/made', os.O_CREAT | os.O_RDWR,
                                 BENEATH | NO_LINKS, 0o640))
    tell('mode', lambda: oct(os.stat('d/made').st_mode))


def files_without_a_name():
    write('gone', 'text')
    fd = os.open('gone', os.O_RDWR)
    os.unlink('gone')
    for link in '/proc/self/fd/%d', '/dev/fd/%d', '/proc/thread-self/fd/%d':
        link = link % fd
        tell('read', lambda: os.read(os.open(link, os.O_RDONLY), 9))
        tell('write', lambda: os.write(os.open(link, os.O_RDWR), b'T'))
        tell('stat', lambda: (os.stat(link).st_nlink, os.stat(link).st_size))
        tell('chmod', lambda: (os.chmod(link, 0o640),
                               oct(os.fstat(fd).st_mode)))
        tell('excl', lambda: os.open(link, os.O_CREAT | os.O_EXCL))
        tell('dir', lambda: os.open(link, os.O_DIRECTORY))
        tell('link', lambda: os.link(link, 'l', follow_symlinks=True))
    tell('cut', lambda: (os.truncate(link, 2), os.fstat(fd).st_size))
    tmp = os.open('d', os.O_TMPFILE | os.O_RDWR)
    tell('again', lambda: os.write(os.open('/dev/fd/%d' % tmp, os.O_RDWR),
                                   b'tmp'))
    tell('named', lambda: os.link('/dev/fd/%d' % tmp, 'named',
                                  follow_symlinks=True))
    low = os.open('d/x', os.O_RDONLY)
    tell('lower', lambda: call(LINKAT, low, b'', CWD, b'd/y', EMPTY))
    write('d/y', 'by the other name')
    tell('names', lambda: open('d/x').read())


def directories_that_are_gone(top):
    os.mkdir('m')
    os.chdir('m')
    os.rmdir('../m')
    tell('cwd', os.getcwd)
    tell('here', lambda: os.stat('.').st_nlink)
    tell('open', lambda: os.listdir(os.open('.', os.O_RDONLY)))
    tell('make', lambda: os.open('x', os.O_CREAT | os.O_WRONLY))
    os.mkdir('%s/m (deleted)' % HERE)
    os.fchdir(top)
    os.chdir('m (deleted)')
    tell('named so', lambda: os.getcwd().replace(HERE, '.'))
    tell('make', lambda: os.close(os.open('x', os.O_CREAT | os.O_WRONLY)))
    os.fchdir(top)


def scripts(top):
    write('s', '#!/bin/sh\necho s $0 $1\n')
    write('by s', '#!%s/s an argument\n' % HERE)
    write('by that', '#!by\\ s')
    for i in range(6):
        write('s%d' % i, '#!%s\n' % ('s%d' % (i - 1) if i else '/bin/sh'))
    write('long', '#!%sbin/sh\n' % ('/' * 300))
    write('cut', '#!/bin/echo %s\n' % ('a' * 300))
    write('comm', '#!/bin/sh\nexec cat /proc/self/comm\n')
    for path in b's', b'by s', b's3', b's4', b's5', b'long', b'cut', b'comm':
        tell(path, lambda: execute(b'./' + path, b'one'))
    os.symlink('s', 'link')
    os.set_inheritable(top, False)
    tell('closed', lambda: execute(b's', at=top))
    tell('link', lambda: execute(b'link', at=top, flags=SYMLINK_NOFOLLOW))
    tell('flags', lambda: execute(b's', at=top, flags=1))
    os.set_inheritable(top, True)
    tell('open', lambda: execute(b's', b'one', at=top).replace(
        '/%d/' % top, '/N/'))
    write('check', '#!/bin/sh\necho executed\n')
    write('no program', '', 0o644)
    check = [execute(p, at=top, flags=0x10000)
             for p in (b'check', b'no program')]
    # Linux 6.14.
    print('check', check == ['may be', 'EACCES'] or check == ['EINVAL'] * 2)


def attributes_of_overlays():
    write('attr', '')
    for name in 'user.overlay.opaque', 'user.overlay.overlay.x', 'user.x':
        tell('none', lambda: os.getxattr('attr', name))
        tell('set', lambda: os.setxattr('attr', name, name.encode()))
        tell('get', lambda: os.getxattr('attr', name))
        tell('all', lambda: sorted(os.listxattr('attr')))
    tell('remove', lambda: os.removexattr('attr', 'user.overlay.opaque'))
    tell('left', lambda: sorted(os.listxattr('attr')))


def main():
    top = os.open('.', os.O_RDONLY)
    os.umask(0o22)
    flags_that_there_are_none()
    ways_that_stay(top)
    files_without_a_name()
    directories_that_are_gone(top)
    scripts(top)
    attributes_of_overlays()


main()
