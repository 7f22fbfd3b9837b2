// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The types and constants of MPI as programs have them that were compiled for MPICH or what shares its
/// binary interface (MPICH ABI Compatibility Initiative): handles are ints whose upper byte is their kind.
/// Functions are in functions.txt.

using MPI_Aint = long;
using MPI_Count = long;
using MPI_Offset = long;
using MPI_Fint = int;
using MPI_Comm = int;
using MPI_Datatype = int;
using MPI_Errhandler = int;
using MPI_Group = int;
using MPI_Info = int;
using MPI_Message = int;
using MPI_Op = int;
using MPI_Request = int;
using MPI_Session = int;
using MPI_Win = int;

struct MPI_Status {
  int count_low;
  int count_high_and_cancelled;  ///< the lowest bit: cancelled
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
};

using MPI_User_function = void(void*, void*, int*, MPI_Datatype*);
using MPI_User_function_c = void(void*, void*, MPI_Count*, MPI_Datatype*);
using MPI_Comm_errhandler_function = void(MPI_Comm*, int*, ...);
/// Of a communicator or a datatype, which are both ints.
using MPI_Copy_function = int(int, int, void*, void*, void*, int*);
using MPI_Delete_function = int(int, int, void*, void*);

namespace cohort::mpi::abi {

inline constexpr int kVersion = 3;  ///< of MPI, of which a part is here, and some of 4.0 and 4.1
inline constexpr int kSubversion = 1;

inline constexpr MPI_Comm kCommWorld = 0x44000000;
inline constexpr MPI_Comm kCommSelf = 0x44000001;
inline constexpr MPI_Comm kCommNull = 0x04000000;
inline constexpr MPI_Group kGroupEmpty = 0x48000000;
inline constexpr MPI_Group kGroupNull = 0x08000000;
inline constexpr MPI_Datatype kDatatypeNull = 0x0c000000;
inline constexpr MPI_Op kOpNull = 0x18000000;
inline constexpr MPI_Request kRequestNull = 0x2c000000;
inline constexpr MPI_Message kMessageNull = 0x2c000000;
inline constexpr MPI_Message kMessageNoProc = 0x6c000000;
inline constexpr MPI_Errhandler kErrhandlerNull = 0x14000000;
inline constexpr MPI_Errhandler kErrorsAreFatal = 0x54000000;
inline constexpr MPI_Errhandler kErrorsReturn = 0x54000001;
inline constexpr MPI_Errhandler kErrorsAbort = 0x54000003;
inline constexpr MPI_Info kInfoNull = 0x1c000000;
inline constexpr MPI_Info kInfoEnv = 0x5c000001;
inline constexpr MPI_Win kWinNull = 0x20000000;
inline constexpr int kKeyvalInvalid = 0x24000000;

// Kinds of handles that are made while a program runs.
inline constexpr int kMadeComm = static_cast<int>(0x84000000);
inline constexpr int kMadeGroup = static_cast<int>(0x88000000);
inline constexpr int kMadeDatatype = static_cast<int>(0x8c000000);
inline constexpr int kMadeErrhandler = static_cast<int>(0x94000000);
inline constexpr int kMadeOp = static_cast<int>(0x98000000);
inline constexpr int kMadeInfo = static_cast<int>(0x9c000000);
inline constexpr int kMadeKeyval = static_cast<int>(0xa4000000);
inline constexpr int kMadeRequest = static_cast<int>(0xac000000);

inline constexpr int kIdent = 0;
inline constexpr int kCongruent = 1;
inline constexpr int kSimilar = 2;
inline constexpr int kUnequal = 3;

inline constexpr int kUndefined = -32766;
inline constexpr int kProcNull = -1;
inline constexpr int kAnySource = -2;
inline constexpr int kRoot = -3;
inline constexpr int kAnyTag = -1;
inline constexpr int kMostTag = 0x3fffffff;

inline constexpr int kThreadMultiple = 3;

inline constexpr int kCommTypeShared = 1;
inline constexpr int kCommTypeHwGuided = 2;
inline constexpr int kCommTypeHwUnguided = 3;

inline constexpr int kTagUb = 0x64400001;
inline constexpr int kHost = 0x64400003;
inline constexpr int kIo = 0x64400005;
inline constexpr int kWtimeIsGlobal = 0x64400007;
inline constexpr int kUniverseSize = 0x64400009;
inline constexpr int kLastUsedCode = 0x6440000b;
inline constexpr int kAppnum = 0x6440000d;

inline constexpr int kMostErrorString = 512;
inline constexpr int kMostObjectName = 128;
inline constexpr int kMostProcessorName = 128;
inline constexpr int kMostInfoKey = 255;
inline constexpr int kMostInfoValue = 1024;
inline constexpr int kBsendOverhead = 96;

inline constexpr int kCombinerNamed = 1;
inline constexpr int kCombinerDup = 2;
inline constexpr int kCombinerContiguous = 3;
inline constexpr int kCombinerVector = 4;
inline constexpr int kCombinerHvector = 6;
inline constexpr int kCombinerIndexed = 7;
inline constexpr int kCombinerHindexed = 9;
inline constexpr int kCombinerIndexedBlock = 10;
inline constexpr int kCombinerStruct = 12;
inline constexpr int kCombinerSubarray = 13;
inline constexpr int kCombinerResized = 18;
inline constexpr int kCombinerHindexedBlock = 19;
inline constexpr int kOrderC = 56;

/// What kind of error a code tells of.
enum ErrorClass : int {
  kSuccess = 0,
  kErrBuffer = 1,
  kErrCount = 2,
  kErrType = 3,
  kErrTag = 4,
  kErrComm = 5,
  kErrRank = 6,
  kErrRoot = 7,
  kErrGroup = 8,
  kErrOp = 9,
  kErrArg = 12,
  kErrUnknown = 13,
  kErrTruncate = 14,
  kErrOther = 15,
  kErrIntern = 16,
  kErrInStatus = 17,
  kErrPending = 18,
  kErrRequest = 19,
  kErrInfo = 28,
  kErrInfoKey = 29,
  kErrInfoValue = 30,
  kErrInfoNoKey = 31,
  kErrNoMem = 34,
  kErrUnsupportedOperation = 44,
  kErrKeyval = 48,
  kErrProcFailed = 101,
  kErrRevoked = 103,
};

/// Addresses with a meaning of their own.
inline void* const kInPlace = reinterpret_cast<void*>(-1);
inline MPI_Status* const kStatusIgnore = reinterpret_cast<MPI_Status*>(1);

}  // namespace cohort::mpi::abi
