# The completion of each shell, driven as the shell does it: what a person gets
# by pressing tab. A stand-in for the program answers for the names.
load lib/common

setup_file() {
	export STAND_IN=$BATS_FILE_TMPDIR/bin
	mkdir -p "$STAND_IN"
	cat >"$STAND_IN/sandlock" <<-'END'
		#!/bin/sh
		[ "$1" = --root ] && root=$2 && shift 2
		case "$*" in
		"list -q") printf '%s\n' web-1 web-2 ${root:+rooted} ;;
		"branches -q") printf '%s\n' calm-otter web-2 ;;
		*) exit 1 ;;
		esac
	END
	chmod +x "$STAND_IN/sandlock"
}

setup() {
	PATH=$STAND_IN:$PATH
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p bundle-dir
	touch bundle-file
}

# complete_bash LINE: as readline calls it, with the cursor at the end.
complete_bash() {
	bash --norc --noprofile -c '
		. "$1"
		line=$2
		# Split as readline does: "=" is a word of its own.
		read -ra COMP_WORDS <<<"${line//=/ = }"
		[[ $line == *[\ =] ]] && COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		COMP_LINE=$line COMP_POINT=${#line}
		_sandlock
		printf "%s\n" "${COMPREPLY[@]}"
	' bash "$REPO/completions/sandlock.bash" "$1" | sort
}

# complete_zsh LINE: a real zsh on a terminal of its own.
complete_zsh() {
	zsh -f "$TESTS/helpers/complete.zsh" "$REPO/completions" "$1"
}

# complete_fish LINE
complete_fish() {
	HOME=$BATS_TEST_TMPDIR XDG_CONFIG_HOME=$BATS_TEST_TMPDIR fish --no-config \
		-c 'source $argv[1]; complete -C "$argv[2]"' \
		"$REPO/completions/sandlock.fish" "$1" | cut -f1 | sort
}

need() {
	command -v "$1" >/dev/null || skip "needs $1"
}

# offers SHELL LINE WORD...: all of these, among others.
offers() {
	local shell=$1 line=$2 got word

	shift 2
	got=$("complete_$shell" "$line")
	for word in "$@"; do
		grep -qxF -- "$word" <<<"$got" || {
			printf "%s: '%s' offers\n%s\nwithout '%s'\n" "$shell" \
				"$line" "$got" "$word" >&2
			return 1
		}
	done
}

# offers_only SHELL LINE WORD...: exactly these.
offers_only() {
	local shell=$1 line=$2 got

	shift 2
	got=$("complete_$shell" "$line")
	equal "$shell, '$line'" "$got" "$(printf '%s\n' "$@" | sort)"
}

# What every shell has to offer.
check_shell() {
	local sh=$1

	offers "$sh" "sandlock " create diff commit completion
	offers_only "$sh" "sandlock com" commit completion
	offers_only "$sh" "sandlock --log-format " text json
	offers_only "$sh" "sandlock start " web-1 web-2
	offers_only "$sh" "sandlock --root /x start " web-1 web-2 rooted
	offers_only "$sh" "sandlock --debug diff " calm-otter web-2
	offers_only "$sh" "sandlock commit calm" calm-otter
	offers_only "$sh" "sandlock run --on-exit " commit abort keep defer
	offers_only "$sh" "sandlock run -b bundle-dir --on-exit=de" \
		"$([ "$sh" = bash ] && echo defer || echo --on-exit=defer)"
	offers_only "$sh" "sandlock kill web-1 US" USR1 USR2
	offers_only "$sh" "sandlock completion " bash zsh fish
	offers_only "$sh" "sandlock help pau" pause
	offers "$sh" "sandlock diff --" --name-status --patch --format --help
	offers "$sh" "sandlock exec --de" --detach
	offers_only "$sh" "sandlock run -b bundle-" \
		"$([ "$sh" = fish ] && echo bundle-dir/ || echo bundle-dir)"
	offers "$sh" "sandlock create --pid-file bundle-f" bundle-file
}

@test "bash: verbs, options, values, names" {
	check_shell bash
}

@test "zsh: verbs, options, values, names" {
	need zsh
	check_shell zsh
}

@test "fish: verbs, options, values, names" {
	need fish
	check_shell fish
}

@test "bash: behind exec NAME nothing of ours is offered" {
	offers_only bash "sandlock exec web-1 --" ""
	offers_only bash "sandlock exec web-1 ls -" ""
}

@test "bash: an option is not offered as a name, nor a name as an option" {
	offers_only bash "sandlock delete --force web-" web-1 web-2
	offers_only bash "sandlock create --pid-file x we" ""
	offers bash "sandlock run -b bundle-dir web-9 --" --detach
}

@test "the command is completed under both names" {
	bash --norc -c '. "$1"; complete -p sandlock sandlock-oci' bash \
		"$REPO/completions/sandlock.bash"
}
