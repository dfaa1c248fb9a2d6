# Profiles: `run -p NAME`, `run --profile-file FILE`, `sandlock profile`.
load lib/common

setup() {
	begin
	only_sandlock
	export SANDLOCK_CONFIG_DIR=$W/config
	mkdir -p "$W/config/profiles" "$W/work"
	cd "$W/work"
}

teardown() { finish; }

# profile NAME: its text is standard input.
profile() { cat >"$W/config/profiles/$1.toml"; }

@test "run -p: the profile's command runs with the profile's settings" {
	profile dev <<-'E'
		[program]
		exec = "/bin/sh"
		args = ["-c", "echo $FOO; echo x >f; exit 3"]
		env = { FOO = "from the profile" }
		[filesystem]
		on_error = "commit"
	E
	run sandlock run -p dev
	expect_status 3
	expect_output 'from the profile'
	equal f "$(cat f)" x
}

@test "run -p: options replace values and add to lists, a command replaces the command" {
	mkdir "$W/a" "$W/b"
	profile dev <<-E
		[program]
		exec = "/bin/false"
		env = { FOO = "1", BAR = "2" }
		[filesystem]
		read = ["/", "$W/a"]
		on_exit = "abort"
	E
	run sandlock run -p dev --env FOO=3 -r "$W/b" --on-exit=commit -- \
		sh -c "echo \$FOO\$BAR; touch $W/work/f"
	expect_status 0
	expect_output 32
	[ -e f ]
}

@test "run --profile-file: any file, a pipe, too" {
	run sandlock run --profile-file <(echo '[program]
		args = ["echo", "hello"]')
	expect_status 0
	expect_output hello
}

@test "run: two kinds of profile at once, one that is missing, and a bad name are refused" {
	profile dev </dev/null
	run sandlock run -p dev --profile-file x -- true
	expect_status 125
	expect_output 'only one of them'
	run sandlock run -p gone -- true
	expect_status 125
	expect_output "there is no profile 'gone'"
	run sandlock run -p ../dev -- true
	expect_status 125
	expect_output 'is no name of a profile'
	run sandlock run --profile-file "$W/gone.toml" -- true
	expect_status 125
	expect_output "No such file"
}

@test "run: a key that is wrong is told with line, column and the nearest one, and nothing runs" {
	profile dev <<-'E'
		[program]
		args = ["touch", "/proc/self/cwd/f"]
		[filesystem]
		raed = "/usr"
	E
	run sandlock run -p dev
	expect_status 125
	expect_output "dev.toml:4:1: there is no key 'filesystem.raed'"
	expect_output "did you mean 'filesystem.read'?"
	is_empty "$W/store"
}

@test "run: a key of a feature that is missing is refused, not ignored" {
	profile dev <<<'limits.cpu = 50'
	run sandlock run -p dev -- true
	expect_status 125
	expect_output "'limits.cpu' is not supported by this version"
}

@test "run -p: \${HOME} is the home, and what looks like another variable is refused" {
	export HOME=$W/home
	mkdir "$HOME"
	echo secret >"$HOME/key"
	profile dev <<-'E'
		[filesystem]
		read = ["/"]
		deny = ["${HOME}/key"]
		mount = ["/mnt:${HOME}:ro"]
		[program]
		cwd = "${HOME}"
		exec = "/bin/sh"
		args = ["-c", "pwd; cat key; ls /mnt"]
	E
	run sandlock run -p dev
	expect_output "$HOME"
	[[ $output != *secret* ]]
	while read -r key path text; do
		profile bad <<<"$key = [\"$path\"]"
		run sandlock run -p bad -- true
		expect_status 125
		expect_output "bad.toml:1:"
		expect_output "$text"
	done <<-'E'
		filesystem.read ${NOPE}/x '${NOPE}/x' begins with an unknown variable
		filesystem.deny ${HOME '${HOME' begins with an unknown variable
		filesystem.read ~/x write ${HOME}
	E
	profile bad <<-'E'
		[filesystem]
		read = ["${HOME}/src"]
		chroot = "/jail"
	E
	run sandlock run -p bad -- true
	expect_status 125
	expect_output "bad.toml:2:9: \${HOME} stands beside filesystem.chroot"
	HOME=/ run sandlock run -p dev -- true
	expect_status 125
	expect_output 'has no HOME'
}

@test "profile list: names and files, the own directory wins" {
	profile b </dev/null
	profile a </dev/null
	echo x >"$W/config/profiles/.hidden.toml"
	echo x >"$W/config/profiles/readme"
	run sandlock profile list -q
	expect_status 0
	expect_exactly "$(printf 'a\nb')"
	run sandlock profile list
	expect_match "a +$W/config/profiles/a.toml"
	run sandlock profile list --json
	equal names "$(jq -r '.profiles[].name' <<<"$output" | xargs)" 'a b'
}

@test "profile show prints the text; check says what is wrong with each file" {
	profile good <<<'# a comment
[limits]
timeout = "5m"'
	run sandlock profile show good
	expect_status 0
	expect_output '# a comment'
	echo '[limits' >"$W/bad.toml"
	run sandlock profile check "$W/config/profiles/good.toml" "$W/bad.toml"
	expect_status 1
	expect_output "bad.toml:1:8: there should be a ']' here"
	refute_output good.toml
	run sandlock profile check "$W/config/profiles/good.toml"
	expect_status 0
	expect_exactly ''
	run sandlock profile frob
	expect_status 2
}

# check SECTION KEYS: what is wrong with that profile.
check() {
	printf '[%s]\n%s\n' "$1" "$2" >"$W/bad.toml"
	run sandlock profile check "$W/bad.toml"
	expect_status 1
	expect_output "$W/bad.toml: "
}

@test "profile check finds what a run would refuse" {
	check network 'allow = "*"
deny = "10.0.0.0/8"'
	expect_output "exclude each other"
	check syscalls 'extra_deny = "nothing"'
	expect_output "'nothing' is neither a system call nor a group"
	check syscalls 'extra_allow = "nothing"'
	expect_output 'these can be allowed: debug'
	check program 'cwd = "here"'
	expect_output "'here' is no absolute path"
	check filesystem 'deny = ""'
	expect_output 'an empty path'
	check ask 'by = "me"'
	expect_output "'me' is neither tty, socket, never"
	check ask 'open = "hosts"'
	expect_output "'hosts' is no absolute path"
	check ask 'exec = ""'
	expect_output 'ask.exec: an empty rule'
	run sandlock run --ask-exec '' -- true
	expect_status 125
	expect_output 'ask.exec: an empty rule'
}

# both SECTION TEXT MESSAGE: check says it, and so does a run.
both() {
	check "$1" "$2"
	expect_output "$3"
	run sandlock run --profile-file "$W/bad.toml" -- true
	expect_status 125
	expect_output "$3"
}

@test "profile check and a run refuse the same" {
	local no=$'no_supervisor = true\n' notify=$'isolation = "notify"\n'

	both program "$no[network]
allow = \"*\"" 'a network rule needs a supervisor'
	both program "$no[network]
port_remap = true" 'a network rule needs a supervisor'
	both program "$no[ask]
open = \"/etc/\"" 'a rule that asks needs a supervisor'
	both program "${no}explain = true" '--explain needs a supervisor'
	both program "$notify$no" '--no-supervisor cannot be had'
	both program "${notify}user = \"12:12\"" '--user cannot be had'
	both program "$notify[filesystem]
chroot = \"/usr\"" '--chroot cannot be had'
	both program "$notify[syscalls]
extra_allow = \"keys\"" '--extra-allow-syscall keys cannot be had'
	both syscalls $'extra_allow = "io_uring"\n[network]\nallow = "*"' \
		'network rules cannot hold'
	both limits $'disk = "1M"\n[config]\nbranch = false' \
		'there is no branch that it is of'
	check program "${no}bundle = \"/b\"
[ask]
exec = \"ls\""
	expect_output 'nobody can decide'
}

@test "config.branch = false: no workdir, nothing to decide, and the current directory is not shown" {
	cat >p.toml <<-E
		[config]
		branch = false
		[filesystem]
		write = ["$W/out"]
	E
	mkdir "$W/out"
	run sandlock run --profile-file p.toml -- \
		sh -c "pwd; ls \"$W\"; echo x >\"$W/out/f\""
	expect_status 0
	# A directory that is not seen is not there to start in.
	equal pwd "${lines[0]}" /
	[[ $output != *p.toml* ]]
	equal written "$(cat "$W/out/f")" x
	equal store "$(ls -A "$W/store/branches" 2>/dev/null)" ""
	run sandlock run --branch=none -r "$W/work" -r /bin -r /usr -r /lib64 \
		-r /lib -- pwd
	expect_exactly "$W/work"
	# A directory that cannot be worked in as a whole is no obstacle then.
	cd /
	run sandlock run --branch=none -- pwd
	expect_exactly /
	run sandlock run --branch=none --workdir "$W/work" -- true
	expect_status 125
	expect_output 'a workdir is always on a branch'
}
