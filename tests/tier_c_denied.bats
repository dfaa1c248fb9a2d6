# Tier C: what is denied within a workdir, where Landlock has no rule for it and
# the supervisor knows (sandbox/cow_denied.c).
load lib/common
load lib/running
load lib/tier_c

setup() {
	begin
	only_sandlock
	skip_unless_tier_c
	mkdir -p "$W/dir/d/e/f" "$W/dir/d/hidden/sub"
	cd "$W/dir" || return 1
	echo secret >d/e/key
	echo secret >d/hidden/sub/s
	echo open >d/e/open
	echo open >open
	echo 2 >d/e/f/two
}

teardown() {
	cd "$W" || return 1
	finish
}

@test "tier C: what is denied in a workdir is no file by any name, and all else is" {
	local before
	cp "$TESTS/helpers/denied.py" .
	before=$(sum)
	in_branch --fs-deny "$W/dir/d/e/key" -- /usr/bin/python3 -B denied.py \
		d/e/key d/e/open
	expect_status 0
	refute_output leak
	refute_output 'no error'
	for how in path dots dirfd openat2 O_PATH link 'hard link' move 'move above' exchange \
		'exchange above' remove truncate chmod execute; do
		expect_output "$how Permission denied"
	done
	[ "$(sum)" = "$before" ]
	! grep -rl secret "$SANDLOCK_STORE" || false
	run sandlock logs --json "$N"
	jq -e '[.denials[] | select((.object // "") | endswith("/d/e/key"))] |
		(map(.code) | contains(["fs.read_file", "fs.write_file", "fs.refer",
			"fs.remove_file", "fs.execute"])) and
		all(.errno == "EACCES" and .where == "--fs-deny")' <<<"$output"
}

@test "tier C: beside what is denied files are made, changed, listed, and run" {
	in_branch --fs-deny "$W/dir/d/e/key" --fs-deny "$W/dir/d/hidden" -- /bin/sh -c '
		set -e; ls d d/e; cat d/e/open; echo 2 >>d/e/open; cat d/e/open
		cp /bin/echo d/e/run; d/e/run ran; rm d/e/run; mkdir d/e/n; echo n >d/e/n/n
		mv d/e/f d/g; cat d/g/two; cd d/e; ls; cat n/n; chmod 755 .; ! cat key'
	expect_status 0
	expect_output $'e\nhidden'
	expect_output $'open\n2\nran\n2\n'
	expect_output $'key\nn\nopen'
	run sandlock commit "$N"
	expect_status 0
	[ "$(cat d/e/open d/g/two d/e/n/n)" = $'open\n2\n2\nn' ]
	[ "$(cat d/e/key)" = secret ]
}

@test "tier C: a denied directory of a workdir has nothing in it to be reached" {
	in_branch --fs-deny "$W/dir/d/hidden" -- /bin/sh -c '
		cat d/hidden/sub/s d/hidden/sub/../sub/s; ls d/hidden; cd d/hidden
		cd d/hidden/sub; echo x >d/hidden/new; mkdir d/hidden/new; ln -s / d/hidden/l
		mv d/hidden/sub/s s; mv d/hidden h; cp -r d/hidden h2; rm -r d/hidden
		mv open d/hidden/open; tar cf t d 2>/dev/null; grep -c hidden/sub t; ls'
	expect_output $'0\nd\nh2\nopen\nt'
	expect_output 'd/hidden/sub/s: Permission denied'
	expect_output "can't cd to d/hidden/sub"
	run sandlock diff --name-status "$N"
	refute_output hidden
}

@test "tier C: with a branch nothing is to be seen of what is denied but that it is there" {
	mkdir -p "$W/far/dir/sub"
	echo secret >"$W/far/key"
	echo secret >"$W/far/dir/sub/s"
	ln -s "$W/far" via
	local all=(d/e/key "$W/far/key" via/key d/hidden "$W/far/dir" "$W/far/dir/" via/dir/../dir)
	in_branch -r "$W/far" -r /usr -r /lib -r /lib64 -r /bin -r /etc --fs-deny "$W/dir/d/e/key" \
		--fs-deny "$W/dir/d/hidden" --fs-deny "$W/far/key" --fs-deny "$W/far/dir" -- \
		/usr/bin/python3 -B -c '
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, fn):
    try: print(name, fn())
    except OSError as e: print(name, e.strerror)
for p in sys.argv[1:]:
    s = os.stat(p)
    print("stat", oct(s.st_mode & 0o7777), s.st_size, s.st_mtime, s.st_uid)
    print("there", os.access(p, os.F_OK), "read", os.access(p, os.R_OK))
    attempt("xattr", lambda: os.listxattr(p))
    attempt("O_PATH", lambda: os.fstat(os.open(p, os.O_PATH)).st_size)
    attempt("statfs", lambda: os.statvfs(p).f_bsize)
    attempt("watch", lambda: "no" if libc.inotify_add_watch(libc.inotify_init(), p.encode(), 2) < 0 else "yes")
for p in sys.argv[1:]:
    if os.path.isdir(p):
        for name in "sub", "sub/s", "nothing":
            attempt("below", lambda: os.stat(p.rstrip("/") + "/" + name))
            attempt("below", lambda: os.readlink(p.rstrip("/") + "/" + name))
            if "far" in p or "via" in p:
                full = p.rstrip("/") + "/" + name
                for fn in os.chdir, os.mkdir, os.rmdir, os.unlink, os.open:
                    attempt("far below", lambda: fn(full, *[os.O_DIRECTORY][: fn is os.open]))
                for flags in os.O_RDONLY, os.O_WRONLY, os.O_PATH, os.O_CREAT:
                    attempt("far below", lambda: os.open(full, flags))
                attempt("far below", lambda: os.execv(full, ["x"]))
                attempt("far below", lambda: os.chmod(full, 0o600))
                attempt("far below", lambda: os.rename(full, "y"))
                attempt("far below", lambda: os.link("d/e/open", full))
print(os.stat("d/e/open").st_size, os.stat(sys.argv[2].replace("key", "")).st_uid == os.getuid())' \
		"${all[@]}"
	expect_status 0
	[ "$(sort <<<"$output" | uniq -c | awk '{$1 = $1; print}' | sort)" = "$(sort <<-END
		1 5 True
		24 below No such file or directory
		117 far below No such file or directory
		7 O_PATH Permission denied
		7 stat 0o0 0 0.0 0
		7 statfs Permission denied
		7 there True read False
		7 watch no
		7 xattr Permission denied
	END
	)" ]
}

@test "tier C: other names in the workdir of a file that is denied are denied, too" {
	ln d/e/key also
	ln d/e/key d/e/f/also
	ln -s d/e/key soft
	in_branch --fs-deny "$W/dir/soft" -- /bin/sh -c 'cat also d/e/f/also d/e/key soft; cat open'
	expect_output 'also: Permission denied'
	expect_output 'd/e/f/also: Permission denied'
	expect_output 'soft: Permission denied'
	refute_output secret
	expect_output open
}

@test "tier C: what the host puts beside what is denied is read" {
	mkfifo "$W/go" "$W/ready"
	"$SANDLOCK" run --isolation=notify --name "$N" -w "$W/go" -w "$W/ready" \
		--fs-deny "$W/dir/d/e/key" -- /bin/sh -c '
		echo >"$1/ready"; read x <"$1/go"; cat d/e/open d/e/new; cat d/e/key' - "$W" \
		>"$W/out" 2>&1 3>&- &
	local run=$!
	STARTED+=("$run")
	timeout 60 cat "$W/ready" >/dev/null
	echo replaced >d/e/open.new
	mv d/e/open.new d/e/open
	echo new >d/e/new
	echo secret >d/e/key.new
	mv d/e/key.new d/e/key
	timeout 60 sh -c 'echo >"$1"' - "$W/go"
	wait "$run" || true
	run cat "$W/out"
	expect_output $'replaced\nnew'
	expect_output 'd/e/key: Permission denied'
	refute_output secret
}

@test "tier C: a workdir may hold the store and the runtime directory" {
	mkdir "$W/whole" "$W/whole/d"
	export SANDLOCK_STORE=$W/whole/.store SANDLOCK_ROOT=$W/whole/.run
	cd "$W/whole" || return 1
	in_branch --workdir "$W/whole" -- /bin/sh -c '
		ls .store .run; cat .run/*/state.json; mv .store s; rm -rf .run
		mkdir n; cp /bin/echo n/e; n/e ran; printf "#!/bin/sh\necho script\n" >n/s
		chmod +x n/s; n/s; cd n; ./e "$PWD"; cd ..; rmdir d; ls -A'
	expect_output "'.store': Permission denied"
	expect_output "'.run': Permission denied"
	expect_output "ran
script
$W/whole/n"
	expect_output $'.run\n.store\nn'
	run sandlock commit "$N"
	expect_status 0
	[ "$(ls -A)" = $'.run\n.store\nn' ]
	[ "$(n/e there)" = there ]
	in_branch --workdir "$W/whole" --storage kept -- /bin/sh -c 'ls kept; : >new; ls -A'
	expect_output "'kept': Permission denied"
	expect_output $'kept\nn\nnew'
}

@test "tier C: --explain says what was out of reach, by which rule, and what helps" {
	echo far >"$W/far"
	in_branch --explain --fs-deny "$W/dir/open" -- /bin/sh -c '
		cat "$1/far" open d/e/key /no/such ./nor-that; echo x >"$1/far"
		echo x >"$1/new"; mkdir made; echo x >made/x; cat made/x >/dev/null; cd made
		echo y >y; cat y /etc/passwd >/dev/null' - "$W"
	run sandlock logs --json "$N"
	[ "$(jq -c '.denials[] | [.code, .errno, .object, .program]' <<<"$output" | tr '\n' ' ')" = \
		'["fs.read_file","EACCES","'"$W"'/far","cat"] ["fs.read_file","EACCES","'"$W"'/dir/open","cat"] ["fs.write_file","EACCES","'"$W"'/far","sh"] ["fs.write_file","EACCES","'"$W"'/new","sh"] ' ]
	mapfile -t remedies < <(jq -r '.denials[] | (.remedy // "")' <<<"$output")
	# shellcheck disable=SC2086
	run sandlock run --isolation=notify --branch=none ${remedies[0]} -- cat "$W/far"
	expect_exactly far
	# shellcheck disable=SC2086
	run sandlock run --isolation=notify --branch=none ${remedies[2]} -- \
		/bin/sh -c 'echo x >"$1"' - "$W/far"
	expect_status 0
}
