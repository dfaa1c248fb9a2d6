# --fs-mount to another place where nothing can be mounted: the same programs
# see and do the same as with a mount (sandbox/host_shown.c, sandbox/cow.h).
load lib/common

setup() {
	begin
	only_sandlock
	skip_unless_tier_c
	mkdir "$W/dir" "$W/prog" "$W/at" "$W/ro"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

# fill DIR: what is shown.
fill() {
	rm -rf "$1"
	mkdir -p "$1/sub"
	echo eff >"$1/f"
	echo gee >"$1/sub/g"
	printf '#!/bin/sh\necho run "$0" "$@" in "$(pwd)"\n' >"$1/run"
	chmod 755 "$1/run"
	cp /bin/true "$1/true"
	ln -s "$W/at/f" "$1/abs"
	ln -s sub/g "$1/rel"
	ln -s ../../etc/hostname "$1/out"
	setfattr -n user.a -v 1 "$1/f"
	[ "$(id -u)" != 0 ] || mknod "$1/dev" c 1 5
	chmod 755 "$1" "$1/sub"
}

# with TIER [OPTION...] -- COMMAND...
with() {
	fill "$W/data"
	fill "$W/fixed"
	run sandlock run --isolation="$1" --name "$N" --on-exit=abort \
		--fs-mount "$W/at:$W/data" \
		--fs-mount "$W/ro:$W/fixed:ro" "${@:2}"
}

# all_the_same [OPTION...] -- COMMAND...: in both tiers, and what it leaves.
all_the_same() {
	local tier

	for tier in namespaces notify; do
		with $tier "$@"
		# The kernel collects keyrings when it has the time.
		printf '%s\n-> %s\n' "$(grep -v 'no session keyring' <<<"$output")" \
			"$status" >"$W/$tier"
		snap -t -x dev "$W/data" | sed 's/ [0-9]*\.[0-9]* / /' >>"$W/$tier"
		cat "$W/data/f" >>"$W/$tier" || true
	done
	same "$W/namespaces" "$W/notify"
}

@test "tier C: what --fs-mount shows elsewhere is as with a mount" {
	cat >"$W/prog/sh" <<-'END'
		D=$1; R=$2; exec 2>&1; cd /
		cat $D/f $D/abs $D/rel; readlink $D/rel; cat $D/out $D/dev; ls $D $D/sub
		(cd $D/sub; pwd; /bin/pwd; cat g ../f; ls ..; ../run x)
		(cd $D; pwd; cat sub/../f; cat ../nothing; $D/true; echo $?)
		$D/run one two
		echo new >$D/new; mkdir $D/nd; mv $D/new $D/nd/x; ln $D/nd/x $D/hl
		ln -s sub/g $D/sl; cat $D/sl; stat -c '%h %s %F' $D/hl $D/sl
		rm -r $D/nd; rmdir $D/sub; rmdir $D/nothere; mkdir $D/sub; rm $D/nothere
		mv $D/sub $D/sub2; ls $D $D/sub2; mv $D/sub2 $D/sub
		chmod 600 $D/f; touch -d @1000 $D/f; stat -c '%a %Y' $D/f
		echo x >$R/f; mkdir $R/k; rm $R/f; rmdir $R/sub; mv $R/f $R/g
		ln $R/f $R/l; ln -s a $R/s; chmod 600 $R/f; touch $R/f; mkdir $R/sub
		cat $R/f; $R/run a; cd $R/sub; echo x >x; rm g; cat g; cd ..; pwd
	END
	cat >"$W/prog/py" <<-'END'
		import errno, os, sys
		D, R = sys.argv[1:]
		def t(f, *a, **k):
		    try: r = f(*a, **k)
		    except OSError as e: r = errno.errorcode[e.errno]
		    print(f.__name__, r if f is not os.open or isinstance(r, str) else 'fd')
		fd = os.open(D + '/f', os.O_RDWR | os.O_CREAT)
		d = os.open(D, os.O_RDONLY)
		t(os.read, fd, 9); t(os.readlink, '/proc/self/fd/%d' % fd)
		t(os.ftruncate, fd, 2); t(os.write, fd, b'xyz'); t(os.fchmod, fd, 0o640)
		print(oct(os.stat(D + '/f').st_mode), sorted(os.listdir(d)))
		t(os.readlink, '/proc/self/fd/%d' % d)
		g = os.open('sub/g', os.O_RDONLY, dir_fd=d); t(os.read, g, 9)
		os.fchdir(d); t(os.getcwd); print(sorted(os.listdir('sub')))
		os.rename('f', 'sub/f2'); os.rename('sub/f2', 'f')
		t(os.rename, D + '/f', os.environ['TMPDIR'] + '/f') if 'TMPDIR' in os.environ else t(
		    os.rename, D + '/f', '/tmp/f')
		t(os.mkdir, D + '/sub'); t(os.access, D + '/f', os.W_OK)
		t(os.access, D + '/run', os.X_OK); t(os.setxattr, D + '/f', 'user.a', b'b')
		t(os.listxattr, D + '/f'); os.chdir(D + '/sub'); t(os.getcwd)
		t(os.readlink, '/proc/self/cwd'); t(os.path.realpath, D + '/rel')
		for a, b, c in os.walk(D): print(a, sorted(b), sorted(c))
		r = os.open(R + '/f', os.O_RDONLY)
		t(os.fchmod, r, 0o600); t(os.setxattr, R + '/f', 'user.a', b'1')
		t(os.removexattr, R + '/f', 'user.a'); t(os.utime, r)
		t(os.access, R + '/f', os.W_OK); t(os.access, R + '/f', os.R_OK)
		t(os.truncate, R + '/f', 0); t(os.open, R + '/f', os.O_RDWR)
		t(os.open, R + '/f', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
		t(os.open, R + '/n', os.O_WRONLY | os.O_CREAT)
		t(os.open, R, os.O_TMPFILE | os.O_RDWR); t(os.mkfifo, R + '/p')
		t(os.symlink, 'x', R + '/f'); t(os.link, R + '/f', R + '/run')
		t(os.rename, R + '/f', R + '/nope/x'); t(os.unlink, R + '/nope')
		print(os.statvfs(R + '/f').f_flag & 7, os.statvfs(D + '/f').f_flag & 7)
	END
	all_the_same -- /bin/sh -c "$(cat "$W/prog/sh")" sh "$W/at" "$W/ro"
	all_the_same --branch=none --cwd "$W/at/sub" -- python3 -c \
		"$(cat "$W/prog/py")" "$W/at" "$W/ro"
	all_the_same --cwd "$W/at" -- /bin/sh -c 'pwd; cat f sub/g; ./run; echo n >n'
	[ -z "$(ls -A "$W/at" "$W/ro" | grep -v :)" ]
}

@test "tier C: by its own path, and by none past it, it is what it is shown as" {
	with notify -- /bin/sh -c "exec 2>&1; cd '$W/fixed/sub'; /bin/pwd; echo x >y
		echo x >'$W/fixed/f'; chmod 600 '$W/fixed/f'; rm ../f
		cat ../../data/f; ls '$W/prog'
		ls '$W'; cat <'$W/fixed/f'"
	expect_output "$W/ro/sub"
	equal refusals "$(grep -c 'Read-only' <<<"$output")" 4
	equal denied "$(grep -c 'Permission denied' <<<"$output")" 2
	expect_output eff
	equal f "$(cat "$W/fixed/f")" eff
	[ ! -e "$W/fixed/sub/y" ]
}

@test "tier C: what --fs-mount cannot show elsewhere is refused, and why" {
	mkdir "$W/full"
	: >"$W/full/x"
	fill "$W/data"
	while read -r expected args; do
		# shellcheck disable=SC2086
		run sandlock run --isolation=notify $args -- /bin/true
		expect_status 125
		expect_output "${expected//\~/ }"
		expect_output hint:
	done <<-END
		takes~an~empty~directory --fs-mount $W/none:$W/data
		takes~an~empty~directory --fs-mount $W/full:$W/data
		only~a~directory --fs-mount $W/at:$W/data/f
		two~places --fs-mount $W/at:/usr/lib
		two~places --fs-mount $W/at:$W/data -r $W/data
		two~places --fs-mount $W/at:$W/data --fs-mount $W/ro:$W/data/sub
		two~places --fs-mount $W/at:/proc
		has~something~mounted~in~it --fs-mount $W/at:/sys
		is~denied --fs-mount $W/at:$W/data --fs-deny $W/data/sub
	END
}
