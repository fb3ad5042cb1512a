/* An all-reduce in C. Every rank contributes its rank + 1; every rank checks the sum.
 *
 *   RANK=0 WORLD_SIZE=2 ./hello /tmp/hello.id & RANK=1 WORLD_SIZE=2 ./hello /tmp/hello.id
 *
 * The id travels through a file, which must not exist beforehand. Device memory is host memory here: malloc.
 */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(ncclResult_t result, const char *call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}

/* Rank 0 makes the id and renames it into place whole; the others wait for it, ten seconds at most. */
static void share_id(ncclUniqueId *id, int rank, const char *path) {
  char draft[4096];
  snprintf(draft, sizeof draft, "%s.draft", path);
  if (rank == 0) check(ncclGetUniqueId(id), "ncclGetUniqueId");
  FILE *file = NULL;
  for (int tries = 0; !file && tries < 1000; ++tries) {
    file = rank == 0 ? fopen(draft, "wb") : fopen(path, "rb");
    if (!file) usleep(10000);
  }
  if (!file) { perror(path); exit(1); }
  size_t moved = rank == 0 ? fwrite(id, sizeof *id, 1, file) : fread(id, sizeof *id, 1, file);
  if (fclose(file) != 0 || moved != 1 || (rank == 0 && rename(draft, path) != 0)) { perror(path); exit(1); }
}

int main(int argc, char **argv) {
  const char *rank_text = getenv("RANK"), *size_text = getenv("WORLD_SIZE");
  if (argc != 2 || !rank_text || !size_text) {
    fprintf(stderr, "usage: RANK=r WORLD_SIZE=n %s ID_FILE\n", argv[0]);
    return 2;
  }
  int rank = atoi(rank_text), ranks = atoi(size_text);
  ncclUniqueId id;
  share_id(&id, rank, argv[1]);

  ncclComm_t comm;
  check(ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
  size_t count = 1 << 20;
  float *data = malloc(count * sizeof *data);
  if (!data) { perror("malloc"); return 1; }
  for (size_t i = 0; i < count; ++i) data[i] = (float)(rank + 1);
  check(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, NULL), "ncclAllReduce");

  float expected = (float)(ranks * (ranks + 1) / 2);
  for (size_t i = 0; i < count; ++i) {
    if (data[i] != expected) {
      fprintf(stderr, "rank %d: element %zu is %g, not %g\n", rank, i, data[i], expected);
      return 1;
    }
  }
  printf("rank %d of %d: every element is %g\n", rank, ranks, expected);
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  free(data);
  return 0;
}
