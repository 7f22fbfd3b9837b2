// SPDX-License-Identifier: Apache-2.0
// clang-format off
// The program of an article on gradients (docs/use/hccl.md), as it was printed but for what is marked "Repaired".
// Build: g++ -std=c++11 ... -lcohort_hccl. Run: ./hccl_gradients RANK SIZE for each rank, in any order.
// 文件名: aigc_hccl_gradient_allreduce.cpp (模拟hccl仓库中ACL API使用示例)
#include "acl/acl.h"
#include "acl/acl_tdt.h" // for ACL TDT collective communication APIs
#include <algorithm> // Repaired: for std::min
#include <iostream>
#include <vector>
#include <string>
#include <numeric> // For std::iota
#include <random> // For random numbers
#include <chrono> // For seeding random
#include <unistd.h> // For getpid()
// 辅助函数:检查ACL API调用结果
// Repaired: a call that failed was made once more, to be printed.
#define CHECK_ACL_RET(call) \
if (const aclError aclRet = (call)) { \
std::cerr << "ACL Error: " << aclRet << " at " << __FILE__ << ":" << __LINE__ << std::endl; \
return 1; \
}
int main(int argc, char* argv[]) {
// 假设 rank_id 和 world_size 通过命令行参数传入
// 例如:./aigc_hccl_gradient_allreduce 0 4 (rank 0, total 4 ranks)
if (argc != 3) {
std::cerr << "Usage: " << argv[0] << " <rank_id> <world_size>" << std::endl;
return 1;
}
int32_t rankId = std::stoi(argv[1]);
int32_t worldSize = std::stoi(argv[2]);
int32_t deviceId = rankId; // 通常rank_id和deviceId对应
std::cout << "Process " << getpid() << " (Rank " << rankId << ") starting..." << std::endl;
// 1. 初始化ACL运行环境
CHECK_ACL_RET(aclInit(nullptr));
// 2. 设置并创建计算设备 (每个rank对应一个设备)
CHECK_ACL_RET(aclrtSetDevice(deviceId));
// 3. 创建Context和Stream
aclrtContext context = nullptr;
aclrtStream stream = nullptr;
CHECK_ACL_RET(aclrtCreateContext(&context, deviceId));
CHECK_ACL_RET(aclrtCreateStream(&stream));
// 4. 初始化HCCL集群通信器 (实际需要提供集群配置,这里简化)
acltdtComm comm = nullptr;
CHECK_ACL_RET(acltdtCreateComm(&comm, worldSize, rankId, "aigc_gradient_comm_group", stream));
std::cout << "Rank " << rankId << ": acltdtComm created." << std::endl;
// 5. 分配设备内存用于梯度传输 (例如,一个AIGC模型的大量梯度)
const size_t gradientElements = 1024 * 1024; // 模拟1M个浮点型梯度
const size_t gradientSize = gradientElements * sizeof(float);
void* deviceGradientBuffer = nullptr;
CHECK_ACL_RET(aclrtMalloc(&deviceGradientBuffer, gradientSize, ACL_MEM_MALLOC_HUGE_FIRST));
// 6. 模拟每个rank计算的局部梯度 (使用随机数,模拟真实梯度)
std::vector<float> localGradients(gradientElements);
std::default_random_engine generator(std::chrono::system_clock::now().time_since_epoch().count() + rankId);
std::uniform_real_distribution<float> distribution(0.0f, 1.0f);
for (size_t i = 0; i < gradientElements; ++i) {
localGradients[i] = distribution(generator) + (float)rankId; // 模拟每个rank的不同梯度基数
}
// 将局部梯度拷贝到设备
CHECK_ACL_RET(aclrtMemcpy(deviceGradientBuffer, gradientSize, localGradients.data(), gradientSize, ACL_MEMCPY_HOST_TO_DEVICE));
std::cout << "Rank " << rankId << ": Local gradients (first 5): ";
for(int i=0; i<5; ++i) std::cout << localGradients[i] << " ";
std::cout << std::endl;
// 7. 执行HCCL AllReduce操作 (异步执行,聚合操作为 SUM)
CHECK_ACL_RET(acltdtCommAllReduce(comm, deviceGradientBuffer, gradientSize, ACL_FLOAT, ACL_TDT_COMM_REDUCE_SUM, stream));
std::cout << "Rank " << rankId << ": acltdtCommAllReduce started." << std::endl;
// 8. 等待AllReduce完成 (同步Stream)
CHECK_ACL_RET(aclrtSynchronizeStream(stream));
std::cout << "Rank " << rankId << ": acltdtCommAllReduce completed." << std::endl;
// 9. 将聚合后的全局梯度从设备拷贝回主机进行验证
std::vector<float> globalGradients(gradientElements);
CHECK_ACL_RET(aclrtMemcpy(globalGradients.data(), gradientSize, deviceGradientBuffer, gradientSize, ACL_MEMCPY_DEVICE_TO_HOST));
// 10. 验证数据 (简单检查前几个元素,与预期总和对比)
std::cout << "Rank " << rankId << ": Global aggregated gradients (first 5): ";
for (int i = 0; i < std::min((int)globalGradients.size(), 5); ++i) {
std::cout << globalGradients[i] << " ";
}
std::cout << std::endl;
// (实际验证会计算所有rank局部梯度的总和进行对比)
// 11. 释放HCCL通信器、设备内存、Stream、Context、ACL环境
CHECK_ACL_RET(acltdtDestroyComm(comm));
CHECK_ACL_RET(aclrtFree(deviceGradientBuffer));
CHECK_ACL_RET(aclrtDestroyStream(stream));
CHECK_ACL_RET(aclrtDestroyContext(context));
CHECK_ACL_RET(aclrtResetDevice(deviceId));
CHECK_ACL_RET(aclFinalize());
std::cout << "Rank " << rankId << ": All resources released. Exiting." << std::endl;
return 0;
}
