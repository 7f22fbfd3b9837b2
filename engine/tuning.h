// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

/// Every measured threshold: its unit, and what it trades. Sizes are bytes unless they say otherwise; what is
/// a part of a cache is derived from the cache. Another kind of machine is another such file. Ranks of a job
/// have to be built with the same one: much of it decides what they expect of each other.
namespace cohort::tuning {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

/// What two cores hand over at a time.
inline constexpr std::size_t kCacheLine = 64;
/// Of a core's own cache, where the system does not say.
inline constexpr std::size_t kCoreCache = kMiB;
/// Of the cache that a host's cores share, where the system does not say.
inline constexpr std::size_t kLastLevelCache = 32 * kMiB;

/// Small messages, whose data travels with a rank's arrival.
namespace slots {
/// Larger ones never do. More slots take memory of each rank for each communicator.
inline constexpr std::size_t kMostBytes = kCoreCache / 4;
/// Up to here where nothing was measured.
inline constexpr std::size_t kUnmeasured = 8 * kKiB;
/// From here on slots have to win clearly, by this factor: between mapped buffers they win by less.
inline constexpr std::size_t kClearFrom = 64 * kKiB;
inline constexpr double kClear = 0.9;
/// The largest message whose schedule runs where the call is made. More delays others on the engine.
inline constexpr std::size_t kMostInPlace = kMostBytes / 2;
/// Combined between two looks at whether others on the engine want a turn.
inline constexpr std::size_t kBetweenLooks = 32 * kKiB;
/// From here on data in mapped memory stays where it lies: the phase that this takes costs more than less
/// copying saves.
inline constexpr std::size_t kReferFrom = 12 * kKiB;
/// The same where ranks share cores, of what a rank gives, and of what may end before all have come.
inline constexpr std::size_t kReferFromOnSharedCores = 64 * kKiB;
inline constexpr std::size_t kReferOneWayFromOnSharedCores = 128 * kKiB;
/// From here on data goes round a ring instead: lines that peers hold cost more than leaving the first cache.
inline constexpr std::size_t kRingFrom = 4 * kKiB;
inline constexpr std::size_t kRingFromOnSharedCores = 32 * kKiB;
/// Two-shot all_reduce: a share of less than this is not worth a second arrival, in bytes;
inline constexpr double kLeastShare = 2 * kCacheLine;
/// nor is less than so many bytes saved, times the ranks whose lines others wait for.
inline constexpr double kWorthMeetingTwice = 384 * kKiB;
}  // namespace slots

/// What large messages of one host pass through between private buffers.
namespace stages {
/// Around so much a writer goes before it takes a line back that peers have read: more than a core's cache
/// holds. Twice as much took half as long again.
inline constexpr std::size_t kRing = 2 * kCoreCache;
/// So many ranks that share cores still go round rings; more push each other's lines out of caches.
inline constexpr std::size_t kMostRanksOfRing = 4;
/// Of a rank, in two places, for messages beyond the ring where no core is idle; and at least of each peer:
/// the more there are, the longer they take to meet after each piece.
inline constexpr std::size_t kStaged = kCoreCache;
inline constexpr std::size_t kLeastStaged = 64 * kKiB;
/// Where one rank gives and each has a core: below, a piece is copied as fast as ranks meet.
inline constexpr std::size_t kLeastOfRoot = 64 * kKiB;
inline constexpr std::size_t kLeastOfRootPerRank = 8 * kKiB;
/// Operands that the kernel copies side by side before they are combined: half of a cache.
inline constexpr std::size_t kPulled = kCoreCache / 2;
/// Copied by the kernel between two looks at who waits on the engine: each part is a system call.
inline constexpr std::size_t kKernelBetweenLooks = kCoreCache / 4;
/// Of a link's messages: one piece, of which this many lie there at a time at least.
inline constexpr std::size_t kLinkPiece = kCoreCache / 8;
inline constexpr std::uint32_t kLinkPieces = 2;
}  // namespace stages

/// send() and recv().
namespace messages {
/// Cells of a pair's ring, a power of two, what each holds, and how many one message takes.
inline constexpr std::uint32_t kCells = 32;
inline constexpr std::size_t kCell = 8 * kKiB;
inline constexpr std::uint32_t kMostCells = 4;
/// A receiver tells how far it has read after so many cells: rarer fills the ring, more often costs lines.
inline constexpr std::uint32_t kCellsBetweenCredits = kCells / 4;
/// From here on both ends copy. Less is over before the sender has heard of its receiver.
inline constexpr std::size_t kCopyTogetherFrom = 64 * kKiB;
/// The parts of that: small enough that who comes late finds some left.
inline constexpr std::size_t kLeastPart = 32 * kKiB;
inline constexpr std::size_t kMostPart = kCoreCache / 4;
inline constexpr std::size_t kParts = 8;
/// Read between two looks at whether others on the engine want a turn, and what a packet counts beside its
/// bytes.
inline constexpr std::size_t kReadBetweenLooks = 128 * kKiB;
inline constexpr std::size_t kPacketCost = 2 * kKiB;
/// Calls that complete at once, between two such looks.
inline constexpr unsigned kCallsBetweenLooks = 32;
/// Of a sender's messages that nobody has asked for, as much is kept.
inline constexpr std::size_t kMostUnused = kMiB;
}  // namespace messages

/// How long to look for what is on its way before sleeping. Longer takes a core from others, shorter costs a
/// wake.
namespace waiting {
/// Looks in shared memory: one after the other, then politely; on cores that ranks share, and yields there.
inline constexpr unsigned kEagerLooks = 1000;
inline constexpr unsigned kPatientLooks = 1000;
inline constexpr unsigned kLooksOnSharedCores = 20;
inline constexpr unsigned kYieldsOnSharedCores = 60;
/// Between two questions whether a peer waits for this core, and whether others on the engine want a turn.
inline constexpr unsigned kEagerLooksInARow = 250;
inline constexpr unsigned kLooksInARow = 64;
inline constexpr unsigned kYieldsInARow = 4;
/// A turn of the loop, after which others get theirs; and those in which a request is answered.
inline constexpr std::chrono::microseconds kLongTurn{50};
inline constexpr unsigned kTurnsForOthers = 4;
inline constexpr unsigned kTurnsBetweenClockReads = 16;
/// Moved between two looks at the clock; parts of a long move that may go at once, and how long they may
/// take.
inline constexpr std::size_t kMovedBetweenLooks = 128 * kKiB;
inline constexpr std::size_t kMostPartsAtOnce = 4;
inline constexpr std::chrono::microseconds kShortPart{12};
inline constexpr std::chrono::microseconds kLongPart{50};
/// A call that completes where it is made counts as so many bytes moved.
inline constexpr std::size_t kCall = 4 * kKiB;
/// An engine spins at least, and at most where wakes are slow; twice a wake between these.
inline constexpr std::chrono::microseconds kLeastSpin{50};
inline constexpr std::chrono::microseconds kMostSpin{1200};
inline constexpr int kWakesToSpin = 2;
/// A yield that takes longer has met a program that is no rank; then the engine sleeps instead for a while.
inline constexpr std::chrono::milliseconds kLongYield{1};
inline constexpr std::chrono::milliseconds kCoreTakenFor{20};
/// Who waits for other hosts offers its core once in so many turns, at each while a yield takes longer than
/// the first figure (somebody else ran), and sleeps for at most the second where a program keeps it.
inline constexpr unsigned kTurnsBetweenOffers = 16;
inline constexpr std::chrono::microseconds kShortYield{2};
inline constexpr std::chrono::milliseconds kMostTakenFor{640};
/// Of such yields, after which ranks that share a core sleep, and for how long.
inline constexpr std::chrono::milliseconds kTooMuchYielded{12};
inline constexpr std::chrono::milliseconds kMostYieldedRemembered{14};
inline constexpr std::chrono::milliseconds kSleepsAfterYields{5};
/// Among ranks that were started apart: waits in a row for which giving the core away has not paid, after
/// which the engine sleeps at once. More lets ranks that cannot yield to each other keep cores; fewer costs
/// wakes where a yield is enough.
inline constexpr unsigned kMostFruitlessYields = 4;
/// So many waits it sleeps at once then, and up to the second figure when that happens again: longer tries in
/// vain less often, and learns later that yielding pays again.
inline constexpr unsigned kLeastWaitsAsleep = 8;
inline constexpr unsigned kMostWaitsAsleep = 64;
}  // namespace waiting

/// Copying and combining memory.
namespace copying {
/// From here on by the processor's string instruction, where it is fast; below by vectors, in pieces that the
/// C library does not turn into it.
inline constexpr std::size_t kStringFrom = 3072;
inline constexpr std::size_t kVectorPiece = 1536;
/// Where it is bad it takes many times as long as vectors.
inline constexpr double kMostTimesOfVectors = 4;
/// Threads that help with a step: from this size on, at most so many, in parts of so much, where that makes
/// it so many times as fast.
inline constexpr std::size_t kShareFrom = kMiB;
inline constexpr unsigned kMostHelpers = 3;
inline constexpr std::size_t kSharedPart = kCoreCache / 4;
inline constexpr double kLeastGainOfHelpers = 1.2;
inline constexpr std::chrono::microseconds kHelperLooks{50};
/// Stores past the caches have to be so many times as fast.
inline constexpr double kLeastGainOfStreaming = 1.1;
}  // namespace copying

/// Sockets.
namespace sockets {
/// A frame of up to this size is sent by whoever starts it; larger ones wait for the loop.
inline constexpr std::size_t kDirect = 64 * kKiB;
/// Sent without a copy from here on, where the device can.
inline constexpr std::size_t kLendFrom = 64 * kKiB;
/// Received together with a header at most; payloads above the second are received once more instead.
inline constexpr std::size_t kReceiveAtOnce = 64 * kKiB;
inline constexpr std::size_t kMostCopied = 8 * kKiB;
/// A system call counts as so many bytes copied.
inline constexpr std::size_t kSystemCall = 32 * kKiB;
/// One send or receive; and the block that what is combined comes into.
inline constexpr std::size_t kPiece = kCoreCache / 2;
/// The same to another host, where each rank has a core: who sends for long does not receive meanwhile.
inline constexpr std::size_t kPieceBetweenHosts = kCoreCache / 8;
inline constexpr std::size_t kCombined = kCoreCache / 4;
/// Between ranks of one host: more piles up in memory instead of the cache.
inline constexpr std::size_t kBufferInHost = 4 * kCoreCache;
/// Turns between looks at a stream from which nobody waits for anything.
inline constexpr unsigned kTurnsBetweenLooks = 16;
/// Of a link over several connections: so much goes over each in turn, of payloads from the second size on.
/// Smaller stripes take more system calls, larger ones leave connections without bytes.
inline constexpr std::size_t kStripe = 64 * kKiB;
inline constexpr std::size_t kStripeFrom = 2 * kStripe;
/// Messages over sockets: in one packet, in a piece of a larger one, received at once.
inline constexpr std::size_t kMostPacket = 64 * kKiB;
inline constexpr std::size_t kPacketsAtOnce = 16 * kKiB;
/// Looked for in place so long, and then so many turns before the kernel is to wake the engine.
inline constexpr std::chrono::microseconds kLookTime{20};
inline constexpr unsigned kLooksInARow = 8;
inline constexpr unsigned kTurnsBeforeKernel = 1000;
}  // namespace sockets

/// Schedules over links.
namespace links {
/// What goes through several ranks one after the other goes in chunks of this size.
inline constexpr std::size_t kChunk = 256 * kKiB;
/// On one host, more than the cores' caches hold goes in pieces, but no less than these.
inline constexpr std::size_t kWhole = 16 * kKiB;
inline constexpr std::size_t kLeastPiece = 64 * kKiB;
/// Ranks that only give are so far ahead of a slow one at most.
inline constexpr std::size_t kMostAhead = 256 * kKiB;
}  // namespace links

/// Choosing among algorithms; ratios of estimated times.
namespace choosing {
/// Closer estimates are equal, and the library's order decides, not rounding.
inline constexpr double kLess = 0.999;
/// Of those whose least estimate is above this part of theirs, the fewest rounds decide: on shared cores,
/// where a round also waits for a core, and where each rank has one.
inline constexpr double kNearlyOnSharedCores = 0.94;
inline constexpr double kNearly = 0.9;
/// The same of those that send to one neighbour all the time, between hosts: no two meet in a port.
inline constexpr double kNearlyToNeighbours = 0.95;
/// Sizes above one where a way took so many times as long as the other are not measured.
inline constexpr double kLost = 1.5;
/// The kernel's copy has to win so clearly: where each byte goes to one rank, and elsewhere.
inline constexpr double kLeastGainOfKernel = 1.1;
inline constexpr double kLeastGainOfKernelToAll = 1.3;
/// Of a message over links, in the model: a shared core also changes from one rank to another; the sender's
/// part; from core to core against both ends on one.
inline constexpr double kWorkOfSharedCore = 2;
inline constexpr double kPartOfSender = 0.8;
inline constexpr double kAcrossCores = 2;
}  // namespace choosing

}  // namespace cohort::tuning
