/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Executes /app/known in a mount namespace of its own, in which the directories that it uses are
 * mounted elsewhere and under an empty root: by pivot_root(2) or chroot(2). With "none", there is no
 * namespace; with "gone", a process that looks something up in one has ended before. With the path of a
 * FIFO, a child process stays there until nobody has it open for writing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition) do { if (!(condition)) _exit(__LINE__ & 0xff); } while (0)

static void new_namespace(void)
{
	MUST(unshare(CLONE_NEWNS) == 0);
	MUST(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

static void bind(const char *from, const char *to)
{
	MUST(mkdir(to, 0755) == 0);
	MUST(mount(from, to, NULL, MS_BIND, NULL) == 0);
}

static void set_up(void)
{
	new_namespace();
	MUST(mount("none", "/new", "tmpfs", 0, NULL) == 0);
	bind("/app", "/new/app");
	bind("/data", "/new/data");
	bind("/deep", "/new/deep");
	bind("/looked", "/new/looked");
	bind("/links", "/new/links");
	bind("/linked", "/new/linked");
	bind("/listed", "/new/listed");
	bind("/there", "/new/there");
	MUST(mkdir("/new/old", 0755) == 0);
}

static void look_and_leave(void)
{
	struct stat found;
	int status;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		new_namespace();
		MUST(stat("/deep/a/b", &found) == 0);
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

/*
 * Goes on in a child. The process that has made the namespace stays until the FIFO has no writer: by this one the namespace is
 * found, and on a busy host an app that ends at once would be gone by then.
 */
static void stay(int fifo)
{
	char byte;
	int status;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		close(fifo);
		return;
	}
	while (read(fifo, &byte, 1) > 0)
		;
	MUST(waitpid(pid, &status, 0) == pid);
	_exit(status != 0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	/* Without waiting for a writer: it may have come and gone. */
	int fifo = argc > 2 ? open(argv[2], O_RDONLY | O_NONBLOCK) : -1;

	MUST(argc < 3 || (fifo >= 0 && fcntl(fifo, F_SETFL, 0) == 0));

	if (!strcmp(how, "pivot")) {
		set_up();
		MUST(syscall(SYS_pivot_root, "/new", "/new/old") == 0);
		MUST(chdir("/") == 0);
		MUST(umount2("/old", MNT_DETACH) == 0);
	} else if (!strcmp(how, "chroot")) {
		set_up();
		MUST(chroot("/new") == 0);
		MUST(chdir("/") == 0);
	} else if (!strcmp(how, "gone")) {
		look_and_leave();
	} else {
		MUST(!strcmp(how, "none"));
	}
	if (fifo >= 0)
		stay(fifo);
	execl("/app/known", "known", (char *)NULL);
	return 127;
}
