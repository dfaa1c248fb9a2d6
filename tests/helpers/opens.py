#!/usr/bin/python3
"""Opens files in many ways in the working directory, which is empty, and prints
what came of it. Where all opens are mediated it has to print the same."""
import errno
import fcntl
import os
import resource
import threading

GROUP = os.stat(".").st_gid


def show(name, path, flags, mode=0o777, **where):
    try:
        fd = os.open(path, flags, mode, **where)
    except OSError as e:
        print(name, errno.errorcode[e.errno])
        return
    s = os.fstat(fd)
    ours = path[:1] == "/" or (s.st_uid == os.getuid() and
                               s.st_gid in (os.getgid(), GROUP))
    print(name, oct(s.st_mode), s.st_size, ours,
          oct(fcntl.fcntl(fd, fcntl.F_GETFL)),
          fcntl.fcntl(fd, fcntl.F_GETFD))
    os.close(fd)


def main():
    os.umask(0o027)
    show("new", "new", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o4777)
    show("again", "new", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    show("there", "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    os.umask(0)
    show("bare umask", "bare", os.O_CREAT | os.O_WRONLY, 0o666)
    os.umask(0o022)
    with open("full", "w") as f:
        f.write("text")
    show("kept", "full", os.O_RDONLY)
    show("append", "full", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    show("truncated", "full", os.O_WRONLY | os.O_TRUNC)
    show("missing", "missing", os.O_RDONLY)
    show("no directory", "full/x", os.O_RDONLY)
    show("no parent", "no/x", os.O_CREAT | os.O_WRONLY)
    os.mkdir("dir")
    os.chmod("dir", 0o2755)
    show("dir", "dir", os.O_RDONLY | os.O_DIRECTORY)
    show("dir as file", "dir", os.O_WRONLY)
    show("dir to make", "dir", os.O_CREAT | os.O_RDWR)
    show("file as dir", "full", os.O_RDONLY | os.O_DIRECTORY)
    show("in set-group-id", "dir/x", os.O_CREAT | os.O_WRONLY, 0o2775)
    show("slash", "dir/y/", os.O_CREAT | os.O_WRONLY)
    show("dots", "dir/../full", os.O_RDONLY)
    os.symlink("full", "link")
    os.symlink("made", "dangling")
    os.symlink(os.path.abspath("full"), "dir/absolute")
    show("link", "link", os.O_RDONLY)
    show("link not followed", "link", os.O_RDONLY | os.O_NOFOLLOW)
    show("link to write", "link", os.O_CREAT | os.O_WRONLY)
    show("absolute link", "dir/absolute", os.O_RDONLY)
    show("dangling", "dangling", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    show("made by link", "dangling", os.O_CREAT | os.O_WRONLY)
    d = os.open("dir", os.O_RDONLY)
    show("beside", "x", os.O_RDONLY, dir_fd=d)
    show("above", "../full", os.O_RDONLY, dir_fd=d)
    show("no fd", "x", os.O_RDONLY, dir_fd=999)
    os.close(d)
    show("empty", "", os.O_RDONLY)
    show("path only", "full", os.O_PATH)
    show("nameless", ".", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.chmod("full", 0)
    show("closed", "full", os.O_RDONLY)
    os.chmod("full", 0o644)
    os.mkdir("sticky")
    os.chmod("sticky", 0o1777)
    show("sticky", "sticky/x", os.O_CREAT | os.O_WRONLY, 0o600)
    show("sticky again", "sticky/x", os.O_CREAT | os.O_WRONLY, 0o600)
    show("self", "/proc/self/status", os.O_RDONLY)
    print("self is", open("/proc/self/stat").read().split()[0] ==
          str(os.getpid()))
    show("null", "/dev/null", os.O_RDWR)
    os.mkfifo("fifo")
    show("fifo alone", "fifo", os.O_WRONLY | os.O_NONBLOCK)
    t = threading.Thread(target=show, args=("fifo read", "fifo", os.O_RDONLY))
    t.start()
    fd = os.open("fifo", os.O_WRONLY)
    t.join()
    os.close(fd)
    fd = os.open("full", os.O_RDONLY)
    with open("long", "w") as f:
        f.write("text")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (fd, most))
    show("no room", "full", os.O_RDONLY)
    show("no room to make", "unmade", os.O_CREAT | os.O_WRONLY)
    show("no room to cut", "long", os.O_WRONLY | os.O_TRUNC)
    print("made", os.path.exists("unmade"), "cut", os.stat("long").st_size)
    os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 1, most))
    show("room", "full", os.O_RDONLY)
    os.mkdir("removed")
    os.chdir("removed")
    os.rmdir("../removed")
    show("in nothing", "x", os.O_CREAT | os.O_WRONLY)


main()
