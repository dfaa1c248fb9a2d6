#!/usr/bin/python3
"""Random programs on a branch, held against the same ones on the directory.

    branch_fuzz.py [options] FIRST [LAST]

For each seed from FIRST to LAST a tree is made twice and a random program
(play.c) runs on one as it is and on the other in a sandbox. Then these must
agree:

    what each call of the program came back with
    what `diff` says, and what the program saw at the end
    after a commit: the tree that the program saw, to the nanosecond, and the
    tree that the plain run left (times of the run itself count as "now")
    after an abort, a roll-back or a refused commit: the tree before

The seed also chooses how it is run and how it ends (see choose); options pin
that. A failure prints the seed and how to run it again; --shrink looks for the
operations that matter.
"""
import argparse
import base64
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
BUILD = os.environ.get('BUILD', os.path.join(HERE, '../../build'))
SANDLOCK = os.environ.get('SANDLOCK', os.path.join(BUILD, 'sandlock'))
HELPERS = os.environ.get('HELPERS', os.path.join(BUILD, 'tests'))
# What root keeps in a sandbox of the host.
CAPS = ('-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,'
        '+net_bind_service')
ENDS = ('commit', 'commit', 'abort', 'crash', 'rollback', 'conflict', 'skip',
        'force', 'parts', 'auto')
# Only where it is asked for: that would change all seeds.
MORE_ENDS = ('host', 'live')
KINDS = {'-': 'file', 'd': 'dir', 'l': 'symlink', 'p': 'fifo', 's': 'socket',
         'c': 'chr', 'b': 'blk'}


class Failure(Exception):
    """Something that sandlock promises is not so."""


class Thing:
    """One line of snap."""

    def __init__(self, line):
        f = line.split(' ')
        self.kind, self.mode, self.uid, self.gid = f[0], f[1], f[2], f[3]
        self.size, self.digest, self.mtime = f[4], f[5], f[6]
        self.group, self.path = f[7][1:], f[8]
        rest = ' '.join(f[9:])
        self.target = ''
        if rest.startswith('-> '):
            self.target, _, rest = rest[3:].partition(' ')
        self.xattrs = dict(x.partition('=')[::2]
                           for x in rest.strip('{}').split(' ') if x)

    def parts(self):
        return (self.kind, self.mode, self.uid, self.gid, self.size,
                self.digest, self.mtime, self.target,
                sorted(self.xattrs.items()))


def parse(text):
    things = {}
    for line in text.splitlines():
        if line.startswith('!'):
            raise Failure('snap cannot read: ' + line)
        t = Thing(line)
        things[t.path] = t
    return things


def groups(things):
    """The sets of names of one file, by name."""
    sets = {}
    for t in things.values():
        if t.group != '-':
            sets.setdefault(t.group, {t.group}).add(t.path)
    return {p: frozenset(s) for s in sets.values() for p in s}


def quote(raw):
    return ''.join(chr(c) if 32 < c < 127 and c != 92 else '\\%03o' % c
                   for c in raw)


def seconds(mtime):
    return int(mtime.partition('.')[0])


def with_now(things, began):
    for t in things.values():
        if seconds(t.mtime) >= began:
            t.mtime = 'now'
    return things


def compare(what, one, other, links=True):
    """Raises where two trees are not the same."""
    lines = []
    for path in sorted(set(one) | set(other)):
        a, b = one.get(path), other.get(path)
        pa, pb = a and a.parts(), b and b.parts()
        if pa != pb:
            lines += ['  %s' % path, '    is:     %s' % (pa,),
                      '    should: %s' % (pb,)]
    if links and not lines:
        ga, gb = groups(one), groups(other)
        for path in sorted(set(ga) | set(gb)):
            if ga.get(path) != gb.get(path):
                lines.append('  links of %s: %s, should be %s' % (
                    path, sorted(ga.get(path, ())),
                    sorted(gb.get(path, ()))))
    if lines:
        raise Failure('\n'.join([what] + lines[:30]))


class Change:
    """One of `diff --format json`."""

    def __init__(self, c):
        self.path = raw_name(c['path']) or '.'
        self.letter, self.before = c['letter'], c['before']
        self.implied = c.get('implied', False)
        self.absent = c.get('already_absent', False)
        self.conflict = c.get('conflict')
        self.xattrs = c.get('xattrs', '')
        a, b = c['before'], c['after']
        self.mtime_only = c['letter'] == 'm' and 'xattrs' not in c and \
            a['mode'] == b['mode'] and a['owner'] == b['owner'] and \
            'link_to' not in c


def write(raw, data, how='wb'):
    with open(raw, how) as f:
        f.write(data)


def is_at_or_below(path, tops):
    return any(path == t or path + '/.' == t or path.startswith(t + '/')
               for t in tops)


class Run:
    """One seed in a directory of its own."""

    def __init__(self, opts, seed, skipped=()):
        self.opts, self.seed, self.skipped = opts, seed, skipped
        self.random = random.Random(seed)
        self.top = tempfile.mkdtemp(prefix='slfz.', dir='/var/tmp')
        os.chmod(self.top, 0o755)
        self.name = 'fz' + os.path.basename(self.top)[5:].replace('_', '-')
        self.plain, self.dir = self.at('plain'), self.at('dir')
        self.bin = self.at('bin')
        self.env = dict(os.environ, SANDLOCK_ROOT=self.at('run'),
                        SANDLOCK_STORE=self.at('store'), LC_ALL='C',
                        SANDLOCK_CACHE=self.at('cache'))
        self.elsewhere = None
        self.as_user = ()
        if opts.user:
            self.as_user = ['setpriv', '--reuid', opts.user, '--regid',
                            opts.user, '--clear-groups', '--']
        self.give_away(self.top)
        self.choose()

    def give_away(self, *paths):
        for path in paths:
            if self.opts.user and os.path.lexists(path):
                os.chown(path, int(self.opts.user), int(self.opts.user),
                         follow_symlinks=False)

    def at(self, name):
        return os.path.join(self.top, name)

    def choose(self):
        r, o = self.random, self.opts
        # Drawn in any case: an option changes nothing else of a seed.
        drawn = r.choice(('namespaces', 'notify')), r.choice(ENDS)
        self.isolation = o.isolation or drawn[0]
        self.end = o.end or drawn[1]
        self.durable = r.random() < 0.2
        self.storage = o.storage or (
            '/dev/shm' if r.random() < 0.25 else None)
        self.n_tree = r.randrange(20, 90)
        self.n_ops = min(r.randrange(20, 200), o.ops or 200)
        self.hard_links = r.random() < 0.4

    # Commands.

    def sandlock(self, *args, status=0, **kw):
        p = subprocess.run([*self.as_user, SANDLOCK, *args], env=self.env,
                           capture_output=True, stdin=subprocess.DEVNULL,
                           timeout=120, **kw)
        if status is not None and p.returncode != status:
            raise Failure('sandlock %s: status %d, not %d\n%s' % (
                ' '.join(map(os.fsdecode, args)), p.returncode, status,
                p.stderr.decode(errors='replace')))
        return p

    def branches(self):
        return json.loads(self.sandlock('branches', '--format',
                                        'json').stdout)['branches']

    def snap(self, path):
        p = subprocess.run([os.path.join(HELPERS, 'snap'), '-t', path],
                           capture_output=True, check=True)
        return parse(p.stdout.decode())

    def play(self, *args):
        skip = [a for n in self.skipped for a in ('-x', str(n))]
        if self.elsewhere:
            skip.append('-f')
        if self.isolation == 'notify':
            skip.append('-c')
        if self.end == 'auto':
            skip.append('-n')
        if self.opts.user:
            skip.append('-u')
        return [os.path.join(self.bin, 'play'), *skip, *args]

    def split(self, out):
        """What the program said, and the tree that it saw."""
        log, _, tree = out.decode().partition('\x01')
        return log, parse(tree)

    # The way of a seed.

    def prepare(self):
        os.mkdir(self.bin)
        os.chmod(self.bin, 0o777)
        for name in ('play', 'snap'):
            shutil.copy(os.path.join(HELPERS, name), self.bin)
        for path in (self.plain, self.dir):
            os.mkdir(path)
            self.give_away(path)
            links = ['-u'] if self.opts.user else []
            links += ['-l'] if self.hard_links else []
            # `run` has no --special.
            links += ['-n'] if self.end == 'auto' else []
            subprocess.run([*self.as_user, os.path.join(self.bin, 'play'),
                            '-t', *links,
                            str(self.seed), str(self.n_tree), path],
                           check=True, stdout=subprocess.DEVNULL)
        if self.storage:
            self.elsewhere = tempfile.mkdtemp(prefix='slfz.',
                                              dir=self.storage)
            self.give_away(self.elsewhere)
        self.before = self.snap(self.dir)
        self.old_groups = groups(self.before)
        compare('the two trees to begin with', self.snap(self.plain),
                self.before)
        self.break_links()

    def break_links(self):
        """An overlay copies a file of several names up as one of one name
        (cow.md row 23), so for the plain run all of them are."""
        for path in self.old_groups:
            raw = os.path.join(os.fsencode(self.plain), unquote(path))
            times = os.lstat(os.path.dirname(raw))
            subprocess.run([b'cp', b'-a', b'--no-preserve=links', b'--', raw,
                            raw[:-len(os.path.basename(raw))] + b'.tmp'],
                           check=True)
            os.rename(os.path.dirname(raw) + b'/.tmp', raw)
            os.utime(os.path.dirname(raw),
                     ns=(times.st_atime_ns, times.st_mtime_ns))

    def run_plain(self):
        out = subprocess.run(
            (self.as_user or
             ['setpriv', '--no-new-privs', '--bounding-set', CAPS,
              '--inh-caps=-all', '--']) + self.play(
                 '-o', os.path.join(self.bin, 'hints'), str(self.seed),
                 str(self.n_ops), self.plain,
                 os.path.join(self.bin, 'snap'), '.'),
            capture_output=True, check=True, stdin=subprocess.DEVNULL)
        return self.split(out.stdout)

    def run_branch(self, *options):
        more = []
        if self.elsewhere:
            more += ['--storage', self.elsewhere]
        if self.end == 'live':
            more += ['-r', '/usr']
        args = ['run', '--name', self.name, '--isolation', self.isolation,
                '--workdir', self.dir, '-r', self.bin, *more, *options, '--',
                *(['/bin/sh', '-c', '"$@"; echo >&2; read -r x', 'sh']
                  if self.end == 'live' else []),
                *self.play('-i', os.path.join(self.bin, 'hints'),
                           str(self.seed), str(self.n_ops), self.dir,
                           os.path.join(self.bin, 'snap'), '.')]
        if self.end == 'live':
            return self.split(self.run_live(args))
        return self.split(self.sandlock(*args).stdout)

    def run_live(self, args):
        """The host runs a program of its own once that of the sandbox is
        through, and what the lower has was noted."""
        with open(self.at('out'), 'wb') as out, subprocess.Popen(
                [*self.as_user, SANDLOCK, *args], env=self.env, stdout=out,
                stdin=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            line = p.stderr.readline()
            if line != b'\n':
                raise Failure('sandlock run: %s' % line)
            self.wait_for_notes()
            self.host_plays()
            _, said = p.communicate(b'\n', timeout=120)
            if p.returncode:
                raise Failure('sandlock run: %d, %s' % (p.returncode, said))
        with open(self.at('out'), 'rb') as f:
            return f.read()

    def wait_for_notes(self):
        """There are some, and no more come."""
        old = None
        for _ in range(100):
            size = [os.path.getsize(os.path.join(d, 'notes'))
                    for d, _, names in os.walk(self.elsewhere or
                                               self.at('store'))
                    if 'notes' in names]
            if size and size == old:
                return
            old = size
            time.sleep(0.2)

    def host_plays(self):
        subprocess.run(
            [*self.as_user, *self.play('-n', str(self.seed + 1),
                                       str(self.random.randrange(5, 40)),
                                       self.dir)],
            check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def go(self):
        self.prepare()
        began = min(seconds(t.mtime) for t in [Now()])
        plain_log, _ = self.run_plain()
        auto = ['--on-exit=commit'] if self.end == 'auto' else []
        log, self.inside = self.run_branch(*auto)
        # There a descriptor of a directory that was removed or moved is not
        # what it is to the kernel: what the sandbox saw is taken for right.
        by_itself = self.opts.user and self.isolation == 'notify' and \
            log != plain_log
        if log != plain_log and not by_itself:
            raise Failure('calls came back otherwise (plain, branch)\n' +
                          difference(plain_log, log))
        self.wanted = with_now(self.snap(self.plain), began)
        self.by_itself = by_itself
        self.began = began
        if not auto and self.end != 'live':
            compare('the lower while the branch waits', self.snap(self.dir),
                    self.before)
        self.is_there = bool(self.branches())
        if self.is_there and self.end != 'live':
            self.check_diff()
        getattr(self, 'end_' + self.end)()
        self.check_gone()

    # How it ends.

    def is_exact(self):
        now = self.snap(self.dir)
        seen = {p: t for p, t in self.inside.items()}
        # Parts that are copied are so one by one.
        links = not self.hard_links and not (
            self.end == 'parts' and self.elsewhere)
        plain_now = {}
        for path, t in now.items():
            plain_now[path] = t
        inner = self.without_trusted(self.snap(self.dir))
        # In tier C a directory of the lower shows that one's times
        # (architecture.md).
        for path, t in inner.items():
            if self.isolation == 'notify' and t.kind == 'd' and \
                    path in seen and seen[path].kind == 'd':
                t.mtime = seen[path].mtime
        # On two file systems, or an ordinary user's, an overlay gives numbers
        # that do not tell links.
        compare('after the commit, against what was seen', inner, seen,
                links and not self.elsewhere and not self.opts.user)
        if not self.by_itself:
            compare('after the commit, against the plain run',
                    with_now(plain_now, self.began), self.wanted, links)

    def without_trusted(self, things):
        for t in things.values():
            t.xattrs = {k: v for k, v in t.xattrs.items()
                        if not k.startswith('trusted.')}
        return things

    def is_before(self):
        compare('the lower is not what it was', self.snap(self.dir),
                self.before)

    def end_commit(self):
        if self.is_there:
            self.sandlock('commit', '--special', self.name)
        self.is_exact()

    def end_auto(self):
        self.is_exact()

    def end_abort(self):
        if self.is_there:
            self.sandlock('abort', self.name)
        self.is_before()

    # Killed at some call, and again while it recovers.

    def killed(self, *args):
        """Whether the command was killed at a random call of a random kind."""
        call = self.random.choice((
            'renameat2', 'renameat2', 'fsync,fdatasync,syncfs', 'openat',
            'unlinkat', 'fchmodat,fchownat,utimensat', 'mkdirat',
            'write,pwrite64', 'setxattrat,setxattr,lsetxattr,fsetxattr',
            'removexattrat,lremovexattr', 'openat2', 'linkat'))
        number = 1 + self.random.randrange(4 if self.random.random() < .5
                                           else 60)
        p = subprocess.run(
            [*self.as_user, 'strace', '-f', '-qq', '-o', '/dev/null', '-e', 'trace=' + call,
             '-e', 'inject=%s:signal=KILL:when=%d' % (call, number), SANDLOCK,
             *args, self.name], env=self.env, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=120)
        return p.returncode != 0

    def crash(self, *recover):
        if not self.is_there:
            return
        if self.killed('commit', '--special') and self.branches():
            while self.random.random() < 0.4:
                self.killed('recover', *recover)
            self.sandlock('recover', *recover, self.name, status=None)
        left = self.branches()
        if left and left[0]['state'] == 'pending':
            self.is_before()
            self.check_diff()
            self.sandlock('commit', '--special', self.name)

    def end_crash(self):
        self.crash()
        self.is_exact()

    def end_rollback(self):
        self.crash('--rollback')
        self.is_exact()

    # In parts.

    def end_parts(self):
        if not self.is_there:
            return
        names = sorted({c.path.split('/')[0] for c in self.changes()
                        if c.path != '.'})
        dropped = set()
        for n in self.random.sample(names, self.random.randrange(
                len(names) + 1)):
            verb = self.random.choice(('commit', 'commit', 'abort'))
            more = ['--special'] if verb == 'commit' else []
            if verb == 'abort':
                dropped.add(n)
            if not self.branches():
                break
            self.sandlock(verb, *more, self.name, '--', unquote(n))
        if self.branches():
            self.sandlock('commit', '--special', self.name)
        if not dropped:
            self.is_exact()
            return
        self.is_mixed(self.before, lambda path: path.split('/')[0]
                      in dropped)

    # The host has changed things meanwhile.

    def changes(self):
        return [Change(c) for c in json.loads(self.sandlock(
            'diff', '-v', '--format', 'json', self.name).stdout)['changes']]

    def edit_host(self):
        """Something that must be a conflict; its path, or None."""
        all_of_them = [c for c in self.changes() if c.path != '.' and
                       not c.implied and not c.absent and not c.mtime_only]
        if not all_of_them:
            return None
        c = self.random.choice(all_of_them)
        try:
            return self.edit_one(c)
        finally:
            raw = os.path.join(os.fsencode(self.dir), unquote(c.path))
            self.give_away(raw, raw + b'/of the host')

    def edit_one(self, c):
        raw = os.path.join(os.fsencode(self.dir), unquote(c.path))
        kind = c.before and c.before['kind']
        if not kind:
            # Its parent may be new, too.
            if not os.path.isdir(os.path.dirname(raw)):
                return None
            write(raw, b'the host has made it, too')
        elif kind == 'dir':
            if c.letter in 'DT':
                write(raw + b'/of the host', b'new')
            else:
                os.chmod(raw, os.stat(raw).st_mode ^ 0o11)
        elif kind == 'file':
            how = self.random.choice(('write', 'replace', 'chmod', 'xattr',
                                      'type', 'delete'))
            # Of what goes as a whole the host may remove a part.
            if how == 'delete' and (c.letter == 'D' or is_at_or_below(
                    c.path, self.replaced)):
                how = 'write'
            self.edit_file(raw, how)
            return '%s %s, %s' % (c.letter, c.path, how)
        else:
            os.unlink(raw)
            write(raw, b'was something else')
        return '%s %s' % (c.letter, c.path)

    def edit_file(self, raw, how):
        if how == 'write':
            write(raw, b'more of the host', 'ab')
        elif how == 'replace':
            write(raw + b'~', b'another')
            os.rename(raw + b'~', raw)
        elif how == 'chmod':
            os.chmod(raw, os.stat(raw).st_mode ^ 0o11)
        elif how == 'xattr':
            os.setxattr(raw, b'user.host', b'1')
        else:
            os.unlink(raw)
            if how == 'type':
                os.mkdir(raw)

    def with_conflict(self):
        """What the host has, and the paths that are in conflict."""
        self.replaced = [c.path for c in self.changes()
                         if c.letter in 'DT'] if self.is_there else ()
        edited = self.is_there and self.edit_host()
        if not edited:
            return None, ()
        host = self.snap(self.dir)
        # A directory that stays is in conflict by itself, not what is in it.
        said = [c.path if c.letter in 'DTA' else c.path + '/.'
                for c in self.changes() if c.conflict]
        if not said:
            raise Failure('diff shows no conflict: %s' % edited)
        self.sandlock('commit', '--special', self.name, status=3)
        compare('published in spite of a conflict', self.snap(self.dir), host)
        return host, said

    # The host runs a program of its own while the branch waits.

    def end_host(self):
        if not self.is_there:
            return
        if self.end == 'host':
            self.host_plays()
        plain = self.without_trusted(self.before)
        host = self.without_trusted(self.snap(self.dir))
        changes = self.changes()
        said = [c.path for c in changes if c.conflict]
        self.replaced = [c.path for c in changes if c.letter in 'DT']
        self.sandlock('commit', '--special', self.name,
                      status=3 if said else 0)
        if said:
            compare('published in spite of a conflict',
                    self.without_trusted(self.snap(self.dir)), host)
            self.sandlock('commit', '--special', '--skip-conflicts',
                          self.name, status=None)
        self.host_has_lost_nothing(plain, host)
        if self.branches():
            self.sandlock('abort', self.name)

    def end_live(self):
        self.end_host()

    def host_has_lost_nothing(self, before, host):
        now = self.without_trusted(self.snap(self.dir))
        lines = []
        for path in sorted(set(before) | set(host)):
            old, his, new, seen = (x.get(path) and what_it_is(x[path])
                                   for x in (before, host, now, self.inside))
            if his == old or new in (his, seen if seen == his else his):
                continue
            # The branch has removed that one, too.
            if not his and is_at_or_below(path, self.replaced):
                continue
            # Entries of a directory come and go; a file that both have
            # removed, or made the same, is as both want it.
            if his and his[0] == 'd' and 'd' in (new and new[0],
                                                  old and old[0]):
                continue
            lines.append('  %s\n    was %s\n    host %s\n    seen %s\n'
                         '    now %s' % (path, old, his, seen, new))
        if lines:
            raise Failure('\n'.join(['the host has lost something'] +
                                    lines[:12]))

    def end_conflict(self):
        host, _ = self.with_conflict()
        if self.is_there:
            self.sandlock('abort', self.name)
        compare('after the abort', self.snap(self.dir), host or self.before)

    def end_skip(self):
        host, said = self.with_conflict()
        if not host:
            return self.end_commit()
        self.sandlock('commit', '--special', '--skip-conflicts', self.name,
                      status=None)
        # What a lower calls overlay.* is not seen through an overlay, so it
        # is a change again.
        left = sorted(c.path for c in self.changes()
                      if not c.implied and not c.mtime_only and
                      'overlay.' not in c.xattrs)
        more = [p for p in left if not is_at_or_below(p, said)]
        if more:
            raise Failure('left behind without a conflict: %s' % more)
        self.is_mixed(host, lambda path: is_at_or_below(path, said))
        self.sandlock('commit', '--special', '--force', self.name)
        return self.is_forced(host)

    def end_force(self):
        host, _ = self.with_conflict()
        if not host:
            return self.end_commit()
        self.sandlock('commit', '--special', '--force', self.name)
        return self.is_forced(host)

    def is_forced(self, host):
        return self.is_mixed(host, lambda path: False)

    def is_mixed(self, host, is_hosts):
        """Changed paths are as was seen, but for the host's; others are the
        host's. Times of directories follow from the rest."""
        now = self.without_trusted(self.snap(self.dir))
        host = self.without_trusted(host)
        seen = self.inside
        want = {}
        for path in set(seen) | set(host):
            old, new, hosts = (x.get(path) for x in (self.before, seen, host))
            same = old and new and self.without_trusted(
                {'': old})[''].parts() == new.parts()
            pick = hosts if is_hosts(path) or same else new
            if not old and not new:
                # In what the branch leaves alone.
                gone = is_at_or_below(path, self.replaced)
                pick = hosts if is_hosts(path) or not gone else None
            if pick:
                want[path] = pick
        for tree in now, want:
            for t in tree.values():
                if t.kind == 'd':
                    t.mtime = '-'
        compare('mixed', now, want, False)

    def check_gone(self):
        if self.branches():
            raise Failure('a branch is left: %s' % self.branches())

    def check_diff(self):
        out = self.sandlock('diff', '-v', '--format', 'json', '--digest',
                            self.name).stdout
        check_diff(json.loads(out)['changes'], self.before, self.inside,
                   self.wanted)

    def close(self):
        for path in self.top, self.elsewhere:
            if path:
                subprocess.run(['rm', '-rf', path], check=False)


def what_it_is(t):
    return (t.kind, t.mode, t.uid, t.gid, t.size, t.digest, t.target,
            sorted(t.xattrs.items()))


class Now:
    def __init__(self):
        self.mtime = '%d.0' % (time.time() - 5)


def unquote(path):
    raw, i = bytearray(), 0
    while i < len(path):
        if path[i] == '\\':
            raw.append(int(path[i + 1:i + 4], 8))
            i += 4
        else:
            raw.append(ord(path[i]))
            i += 1
    return bytes(raw)


def difference(a, b):
    import difflib
    return '\n'.join(list(difflib.unified_diff(
        a.splitlines(), b.splitlines(), 'plain', 'branch', lineterm='',
        n=2))[:40])


def raw_name(p):
    if isinstance(p, dict):
        return quote(base64.b64decode(p['b64']))
    return quote(p.encode())


def check_diff(changes, before, inside, wanted):
    """The changes, applied to what was before, give what was seen."""
    tree = {p: side(t) for p, t in before.items()}
    for c in changes:
        path = raw_name(c['path'])
        path = path or '.'
        after = c['after']
        if c['letter'] in 'DT':
            if path not in tree and not c.get('implied') and \
                    not c.get('already_absent'):
                raise Failure('diff: %s %s was not there' % (
                    c['letter'], path))
            # In a directory made anew, what is as before is not listed.
            if not c.get('opaque'):
                tree = {p: t for p, t in tree.items()
                        if p != path and not p.startswith(path + '/')}
            if c['letter'] == 'D':
                continue
        elif (c['letter'] == 'A') == (path in tree):
            raise Failure('diff: %s %s, and it was %s' % (
                c['letter'], path, tree.get(path)))
        tree[path] = (after['kind'], after['mode'],
                      str(after['owner']['uid']), str(after['owner']['gid']),
                      after.get('sha256', '')[:32],
                      quote(name_bytes(after['target'])) if 'target' in after
                      else '', after.get('device', ''))
        # In the sandbox an overlay over two file systems may tell different
        # inode numbers of two names.
        if 'link_to' in c and all(
                g.get(path) != g.get(raw_name(c['link_to']))
                for g in (groups(inside), groups(wanted))):
            raise Failure('diff: %s is no link to %s' % (path, c['link_to']))
    for path in sorted(set(tree) | set(inside)):
        a = tree.get(path)
        b = side(inside[path]) if path in inside else None
        if a != b:
            raise Failure('diff of %s\n  says: %s\n  is:   %s' % (path, a, b))


def name_bytes(p):
    if isinstance(p, dict):
        return base64.b64decode(p['b64'])
    return p.encode()


def side(t):
    return (KINDS[t.kind], t.mode, t.uid, t.gid,
            t.digest if t.kind == '-' else '', t.target,
            t.size if t.kind in 'cb' else '')


def attempt(opts, seed, skipped=()):
    run = Run(opts, seed, skipped)
    try:
        run.go()
        return None, run
    except (Failure, subprocess.SubprocessError) as e:
        text = str(e)
        if getattr(e, 'stderr', None):
            text += '\n' + e.stderr.decode(errors='replace')
        return text, run
    finally:
        if not (opts.keep and sys.exc_info()[0] is None) and not opts.keep:
            run.close()


def shrink(opts, seed, n_ops):
    """Leaves out what does not matter, in halves, then one by one."""
    skipped, size = set(), n_ops // 2
    while size:
        for at in range(0, n_ops, size):
            more = set(range(at, min(at + size, n_ops))) - skipped
            if more and attempt(opts, seed, sorted(skipped | more))[0]:
                skipped |= more
        size //= 2
    return sorted(skipped)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('first', type=int)
    p.add_argument('last', type=int, nargs='?')
    p.add_argument('--isolation')
    p.add_argument('--end', choices=sorted(set(ENDS + MORE_ENDS)))
    p.add_argument('--storage')
    p.add_argument('--user', help='the number of one')
    p.add_argument('--ops', type=int)
    p.add_argument('--keep', action='store_true')
    p.add_argument('--shrink', action='store_true')
    p.add_argument('--go-on', action='store_true')
    p.add_argument('--skip', type=lambda s: [int(x) for x in s.split(',')],
                   default=())
    opts = p.parse_args()
    failed = 0
    for seed in range(opts.first, (opts.last or opts.first) + 1):
        text, run = attempt(opts, seed, opts.skip)
        how = '%s, %s, %s, %s' % (run.isolation, run.end,
                                  'durable' if run.durable else 'volatile',
                                  run.storage or 'here')
        if not text:
            continue
        failed += 1
        print('seed %d failed (%s)\n%s' % (seed, how, text), flush=True)
        if opts.keep:
            print('in', run.top)
        if opts.shrink:
            left = shrink(opts, seed, run.n_ops)
            print('--skip', ','.join(map(str, left)))
            text, run = attempt(opts, seed, left)
            print(text)
        if not opts.go_on:
            break
    print('%d failed' % failed)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
