// SPDX-License-Identifier: Apache-2.0
#pragma once

// Asio 1.22 looks on clang for the coroutines of the technical specification, which are gone, and would do
// without any. Where it has not been read yet it is told of those of the standard, as it finds them by itself
// on g++.
#if defined(__clang__) && !defined(ASIO_DETAIL_CONFIG_HPP) && __cpp_impl_coroutine >= 201902L
#ifndef ASIO_HAS_CO_AWAIT
#define ASIO_HAS_CO_AWAIT 1
#endif
#ifndef ASIO_HAS_STD_COROUTINE
#define ASIO_HAS_STD_COROUTINE 1
#endif
#endif

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/execution/outstanding_work.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
