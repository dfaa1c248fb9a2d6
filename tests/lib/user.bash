# An ordinary user for tests that run as root.
#
#	load lib/user
#	setup_file() { user_add; }
#	teardown_file() { user_del; }
#	as_user COMMAND...
#
# The name has a suffix of its own, so that runs beside each other do not
# meet; subordinate ids come from useradd.

user_add() {
	TEST_USER=sandlock-test-$$
	export TEST_USER
	TEST_USER_DIR=$(mktemp -d /var/tmp/slu.XXXXXXXX)
	export TEST_USER_DIR
	touch /etc/subuid /etc/subgid
	useradd --no-create-home --home-dir "$TEST_USER_DIR" --shell /bin/sh \
		"$TEST_USER" || return 1
	grep -q "^$TEST_USER:" /etc/subuid ||
		usermod --add-subuids 1200000000-1200065535 \
			--add-subgids 1200000000-1200065535 "$TEST_USER"
	chown "$TEST_USER:" "$TEST_USER_DIR"
	chmod 755 "$TEST_USER_DIR"
}

# Runs with nothing of root's: ids, groups, capabilities, environment.
as_user() {
	setpriv --reuid "$TEST_USER" --regid "$(id -g "$TEST_USER")" \
		--init-groups --inh-caps=-all -- \
		env -i PATH="$PATH" HOME="$TEST_USER_DIR" USER="$TEST_USER" \
		LC_ALL=C "${AS_USER_ENV[@]}" "$@"
}

user_del() {
	[ -n "$TEST_USER" ] || return 0
	rm -rf "/dev/shm/sandlock-$(id -u "$TEST_USER")"
	# What removes discarded branches may still run as that user. The
	# subordinate ids go with it, under a lock.
	for _ in $(seq 50); do
		userdel "$TEST_USER" 2>/dev/null && break
		sleep 0.1
	done
	rm -rf "$TEST_USER_DIR"
}
