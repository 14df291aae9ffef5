/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program of which every access to its file system is known. Linked statically, so that nobody else
 * opens anything for it; what it does is repeated in known.rs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

/* Any failure but the expected ones ends the program with the line's number modulo 256. */
#define MUST(condition) do { if (!(condition)) _exit(__LINE__ & 0xff); } while (0)

static void read_pages(const char *path, const int *pages, int count)
{
	static char buffer[PAGE];
	int fd = open(path, O_RDONLY);
	int i;

	MUST(fd >= 0);
	for (i = 0; i < count; i++)
		MUST(pread(fd, buffer, PAGE, (off_t)pages[i] * PAGE) == PAGE);
	close(fd);
}

static void touch_pages(const char *path, const int *pages, int count)
{
	int fd = open(path, O_RDONLY);
	struct stat stat;
	volatile char *map;
	int i;

	MUST(fd >= 0);
	MUST(fstat(fd, &stat) == 0);
	map = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	MUST(map != MAP_FAILED);
	for (i = 0; i < count; i++)
		(void)map[(long)pages[i] * PAGE];
	close(fd);
}

static void list(const char *path)
{
	DIR *dir = opendir(path);

	MUST(dir);
	while (readdir(dir))
		;
	closedir(dir);
}

/* With an argument it stays, with all that it has mapped, once it has said so. */
int main(int argc, char **argv)
{
	static const int plain[] = { 2, 3, 9 }, mapped[] = { 3, 140, 377 }, sparse[] = { 10, 20 },
			 fragmented[] = { 0, 15, 31 }, one[] = { 0 }, child[] = { 5 };
	struct stat stat_buffer;
	char target[256];
	pid_t pid;
	int status;

	read_pages("/data/plain", plain, 3);
	touch_pages("/data/mapped", mapped, 3);
	read_pages("/data/sparse", sparse, 2);
	read_pages("/data/fragmented", fragmented, 3);
	read_pages("/deep/a/b/c/d/e/file", one, 1);

	MUST(open("/deep/a/absent", O_RDONLY) < 0);
	MUST(stat("/deep/none/of/these", &stat_buffer) < 0);
	MUST(stat("/looked/only", &stat_buffer) == 0);
	MUST(readlink("/links/short", target, sizeof(target)) > 0);
	read_pages("/links/long/linked", one, 1);
	list("/listed");

	MUST(chdir("/there") == 0);
	read_pages("below/file", one, 1);

	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		read_pages("../data/child", child, 1);
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	MUST(status == 0);
	(void)argv;
	if (argc > 1) {
		MUST(write(STDOUT_FILENO, "ready\n", 6) == 6);
		pause();
	}
	return 0;
}
