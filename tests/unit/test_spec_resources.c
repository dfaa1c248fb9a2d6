#include "spec_cases.h"

#define RESOURCES(x) LINUX("'resources':{" x "}")
#define RULE(x) RESOURCES("'devices':[{" x "}]")
#define BLOCK(x) RESOURCES("'blockIO':{" x "}")

/* clang-format off */
static const struct spec_case cases[] = {
	{ LINUX("'resources':[]"), "linux.resources: must be an object" },
	{ RULE("'access':'rwm'"), "resources.devices[0].allow: is required" },
	{ RULE("'allow':1"), "devices[0].allow: must be true or false" },
	{ RULE("'allow':true,'type':'z'"), "devices[0].type: unknown device type 'z'" },
	{ RULE("'allow':true,'access':'rx'"), "devices[0].access: 'rx' is not made of r, w and m" },
	{ RULE("'allow':true,'major':-2"), "devices[0].major: -2 is out of range" },
	{ RULE("'allow':true,'major':'1'"), "devices[0].major: must be a number" },
	{ RESOURCES("'memory':{'limit':-2}"), "resources.memory.limit: -2 is out of range" },
	{ RESOURCES("'memory':{'limit':9223372036854775808}"), "memory.limit: 9223372036854775808 is out of range" },
	{ RESOURCES("'memory':{'limit':1e3}"), "memory.limit: must be an integer, not 1e3" },
	{ RESOURCES("'memory':{'swappiness':101}"), "swappiness: 101 is out of range (0 to 100)" },
	{ RESOURCES("'memory':{'disableOOMKiller':0}"), "disableOOMKiller: must be true or false" },
	{ RESOURCES("'cpu':{'shares':-1}"), "cpu.shares: -1 is out of range" },
	{ RESOURCES("'cpu':{'quota':-2}"), "cpu.quota: -2 is out of range" },
	{ RESOURCES("'cpu':{'idle':2}"), "cpu.idle: 2 is out of range" },
	{ RESOURCES("'cpu':{'cpus':0}"), "cpu.cpus: must be a string" },
	{ RESOURCES("'pids':{'limit':-2}"), "pids.limit: -2 is out of range" },
	{ BLOCK("'weight':9"), "blockIO: a weight is out of range" },
	{ BLOCK("'weight':1001"), "blockIO.weight: 1001 is out of range" },
	{ BLOCK("'weightDevice':[{'major':1,'minor':2}]"), "weightDevice[0]: weight or leafWeight is required" },
	{ BLOCK("'weightDevice':[{'major':1,'weight':10}]"), "weightDevice[0].minor: is required" },
	{ BLOCK("'throttleReadBpsDevice':[{'major':1,'minor':2}]"), "throttleReadBpsDevice[0].rate: is required" },
	{ BLOCK("'throttleWriteIOPSDevice':[{'minor':2,'rate':1}]"), "throttleWriteIOPSDevice[0].major: is required" },
	{ RESOURCES("'hugepageLimits':[{'limit':1}]"), "hugepageLimits[0].pageSize: is required" },
	{ RESOURCES("'hugepageLimits':[{'pageSize':'2MB'}]"), "hugepageLimits[0].limit: is required" },
	{ RESOURCES("'hugepageLimits':[{'pageSize':'2M','limit':1}]"), "'2M' is no page size" },
	{ RESOURCES("'hugepageLimits':[{'pageSize':'02MB','limit':1}]"), "'02MB' is no page size" },
	{ RESOURCES("'hugepageLimits':[{'pageSize':'../2MB','limit':1}]"), "is no page size" },
	{ RESOURCES("'network':{'classID':4294967296}"), "network.classID: 4294967296 is out of range" },
	{ RESOURCES("'network':{'priorities':[{'name':'','priority':1}]}"), "priorities[0].name: must not be empty" },
	{ RESOURCES("'network':{'priorities':[{'name':'e'}]}"), "priorities[0].priority: is required" },
	{ RESOURCES("'rdma':{'mlx5_1':{}}"), "rdma.mlx5_1: hcaHandles or hcaObjects is required" },
	{ RESOURCES("'rdma':{'mlx5_1':{'hcaHandles':-1}}"), "rdma.mlx5_1.hcaHandles: -1 is out of range" },
	{ RESOURCES("'unified':{'memory.max':1}"), "unified['memory.max']: must be a string" },
	{ RESOURCES("'unified':{'../x':'1'}"), "is no name of a cgroup file" },
	{ RESOURCES("'unified':{'a/b':'1'}"), "'a/b' is no name of a cgroup file" },
	{ RESOURCES("'unified':{'..':'1'}"), "'..' is no name of a cgroup file" },
	{ RESOURCES("'zzz':1,'memory':{},'cpu':{},'pids':{},'blockIO':{},'network':{},'rdma':{},'unified':{}"), NULL },
};
/* clang-format on */

static void resources_are_checked(void **state)
{
	CHECK_CASES(cases);
}

static void device_rules_are_read(void **state)
{
	auto_ptr(spec_free) struct spec *s = spec_good(
		RESOURCES("'devices':[{'allow':false,'access':'rwm'},"
			  "{'allow':true,'type':'c','major':1,'minor':null,"
			  "'access':'r'},{'allow':true,'type':'b','major':-1,"
			  "'minor':0}]"));
	const struct spec_device_rule *d = s->resources.devices;

	assert_true(s->has_resources);
	assert_int_equal(s->resources.n_devices, 3);
	assert_true(!d[0].allow && d[0].type == 'a');
	assert_true(d[0].major == -1 && d[0].minor == -1);
	assert_true(d[0].read && d[0].write && d[0].mknod);
	assert_true(d[1].allow && d[1].type == 'c');
	assert_true(d[1].major == 1 && d[1].minor == -1);
	assert_true(d[1].read && !d[1].write && !d[1].mknod);
	assert_true(d[2].major == -1 && d[2].minor == 0 && d[2].mknod);
}

static void limits_are_read(void **state)
{
	struct spec_resources *r = NULL;
	struct error err = ERROR_INIT;
	auto_free char *text = spec_quoted(
		"{'memory':{'limit':0,'swap':-1,'swappiness':0,"
		"'disableOOMKiller':false,'checkBeforeUpdate':true},"
		"'cpu':{'shares':2,'quota':-1,'cpus':'0','mems':''},"
		"'pids':{'limit':0},'blockIO':{'weight':0,'leafWeight':10,"
		"'throttleReadBpsDevice':[{'major':8,'minor':0,'rate':5}]},"
		"'hugepageLimits':[{'pageSize':'2MB',"
		"'limit':18446744073709551615}],"
		"'network':{'classID':7,'priorities':[{'name':'e',"
		"'priority':3}]},'rdma':{'a':{'hcaObjects':0}},"
		"'unified':{'memory.max':'9'}}");

	assert_int_equal(
		spec_resources_parse(text, strlen(text), NULL, &r, &err), 0);
	assert_true(r->has_mem_limit && r->mem_limit == 0);
	assert_true(r->has_mem_swap && r->mem_swap == -1);
	assert_true(r->has_mem_swappiness && r->has_mem_disable_oom);
	assert_false(r->has_mem_kernel || r->has_mem_reservation);
	assert_true(r->mem_check_before_update);
	assert_true(r->has_cpu_shares && r->cpu_shares == 2);
	assert_true(r->has_cpu_quota && r->cpu_quota == -1);
	assert_false(r->has_cpu_period || r->has_cpu_idle);
	assert_string_equal(r->cpu_cpus, "0");
	assert_null(r->cpu_mems);
	assert_true(r->has_pids_limit && r->pids_limit == 0);
	assert_false(r->has_blkio_weight);
	assert_true(r->has_blkio_leaf_weight && r->blkio_leaf_weight == 10);
	assert_true(r->n_read_bps == 1 && r->read_bps[0].rate == 5);
	assert_true(r->hugepages[0].limit == UINT64_MAX);
	assert_true(r->has_net_class_id && r->net_class_id == 7);
	assert_int_equal(r->net_prios[0].priority, 3);
	assert_string_equal(r->rdma[0].device, "a");
	assert_true(r->rdma[0].has_objects && !r->rdma[0].has_handles);
	assert_string_equal(r->unified[0].key, "memory.max");
	assert_string_equal(r->unified[0].value, "9");
	spec_resources_free(r);
	spec_resources_free(NULL);
}

static void a_file_is_loaded(void **state)
{
	struct spec_resources *r = NULL;
	struct error err = ERROR_INIT;
	char dir[256], path[300];
	auto_close int dir_fd = unit_tmpdir(dir);
	int fd = openat(dir_fd, "r", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	int in = dup(STDIN_FILENO);

	assert_int_equal(write(fd, "{\"pids\":{\"limit\":5}}", 20), 20);
	(void)snprintf(path, sizeof(path), "%s/r", dir);
	assert_int_equal(spec_resources_load(path, NULL, &r, &err), 0);
	assert_int_equal(r->pids_limit, 5);
	spec_resources_free(r);
	r = NULL;
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	assert_int_equal(spec_resources_load("-", NULL, &r, &err), 0);
	spec_resources_free(r);
	(void)dup2(in, STDIN_FILENO);
	(void)close(in);
	(void)close(fd);
	assert_int_equal(unlinkat(dir_fd, "r", 0), 0);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(spec_resources_load(path, NULL, &r, &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resources_are_checked),
		cmocka_unit_test(device_rules_are_read),
		cmocka_unit_test(limits_are_read),
		cmocka_unit_test(a_file_is_loaded),
	};

	return RUN_TESTS(tests);
}
