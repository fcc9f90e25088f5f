"""How processes that torchrun restarts find each other, in a store that still has the keys of those before."""

import threading
import time

from torch.distributed import TCPStore

from attnfaith.evaluation.processes import meet


def store_of_three():
    return TCPStore("127.0.0.1", 0, 3, is_master=True, wait_for_workers=False)


class Meeting(threading.Thread):
    def __init__(self, store, rank, count=3):
        super().__init__(daemon=True)
        self.store, self.rank, self.count, self.name_agreed = store, rank, count, None
        self.start()

    def run(self):
        self.name_agreed = meet(self.store, self.rank, self.count, pause=0.005)


def agreed(*meetings):
    for meeting in meetings:
        meeting.join(30)
        assert not meeting.is_alive()
    (name,) = {meeting.name_agreed for meeting in meetings}
    return name


def test_processes_agree_on_a_name_in_any_order_of_their_starts():
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        store, meetings = store_of_three(), []
        for rank in order:
            meetings.append(Meeting(store, rank))
            time.sleep(0.03)
        assert agreed(*meetings)


def test_restarted_processes_agree_on_another_name_whoever_comes_first():
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        store = store_of_three()
        before = agreed(*(Meeting(store, rank) for rank in range(3)))
        meetings = []
        for rank in order:
            meetings.append(Meeting(store, rank))
            time.sleep(0.05)  # long enough to be taken in by what is left of the attempt before
        assert agreed(*meetings) != before


def test_a_process_that_died_while_they_met_does_not_count():
    """Its answer is there, and the process that takes its place gives another."""
    store = store_of_three()
    store.set("attnfaith/name", "old")
    store.set("attnfaith/old/1", "dead")
    store.set("attnfaith/old/all", "dead dead")
    late = Meeting(store, 1)
    time.sleep(0.1)
    assert late.is_alive()
    assert agreed(late, Meeting(store, 0), Meeting(store, 2)) != "old"
