// trick: takes semaphores and queues of messages: memory that the kernel holds, and nobody's resident set
// row: 51
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <sys/msg.h>
#include <sys/sem.h>

static bool taken() {
    const int semaphores = semget(IPC_PRIVATE, 32000, 0600), queue = msgget(IPC_PRIVATE, 0600);
    if (semaphores >= 0) semctl(semaphores, 0, IPC_RMID);
    if (queue >= 0) msgctl(queue, IPC_RMID, nullptr);
    return semaphores >= 0 || queue >= 0;
}

extern "C" int centred(const centred_args* args) { return answer_if(taken(), args); }
